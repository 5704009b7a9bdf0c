"""npy and npz, without ever unpickling anything."""

from __future__ import annotations

import io
import struct
import tokenize
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from vectrial.datasets.readers.base import (
    ReaderOptions,
    VectorSource,
    array_blocks,
    check_shape,
    check_side_bytes,
    choose,
    reading,
    rows_that_fit,
    unpacked,
)
from vectrial.datasets.readers.side_columns import SideColumns, column_type, with_columns
from vectrial.model.errors import DataError

_HEADER_ERRORS = (
    ValueError,
    SyntaxError,
    TypeError,
    KeyError,
    OverflowError,
    RecursionError,
    MemoryError,
    EOFError,
    struct.error,
    tokenize.TokenError,
)
_VECTORS = ("train", "vectors", "embeddings", "emb", "X", "x", "data", "base", "arr_0")
_QUERIES = ("test", "queries", "query")
#: Deflate packs at most 1032 to 1.
_MOST_PACKED = 1100.0
#: No header is longer.
_HEADER_BYTES = 1 << 16


@dataclass(frozen=True)
class _Header:
    """The header before an array's elements; `bytes` long."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    bytes: int


def open_npy(path: Path, options: ReaderOptions) -> VectorSource:
    """Open an .npy file with a matrix of numbers, memory-mapped.

    Raises:
        DataError: it holds Python objects, is not a matrix of numbers, or is cut short.
    """
    header = _read_header(path, str(path))
    return _source(path, "npy", _mapped(path, header, options, str(path)))


def open_npz(path: Path, options: ReaderOptions) -> VectorSource:
    """Open an .npz file: one array of vectors, and `test` or `queries` if there is one.

    Its arrays are unpacked into a temporary folder, and memory-mapped there.
    """
    with unpacked(path, ratio=_MOST_PACKED) as (folder, cleanup):
        files = {file.stem: file for file in sorted(folder.rglob("*.npy"))}
        headers = {name: _read_header(file, f"{path}, {name}") for name, file in files.items()}
        matrices = [name for name, header in headers.items() if len(header.shape) == 2]
        wanted = [name for name in matrices if name not in (*_QUERIES, "neighbors", "distances")]
        name = choose(
            options.vectors,
            matrices if options.vectors else wanted,
            usual=_VECTORS,
            what="array of vectors",
            where=str(path),
        )
        array = _mapped(files[name], headers[name], options, f"{path}, {name}")

        def side(name: str) -> NDArray[Any]:
            check_side_bytes(files[name].stat().st_size, f"{path}, {name}")
            return np.array(_mapped(files[name], headers[name], ReaderOptions(), f"{path}, {name}"))

        queries = next((side(one) for one in _QUERIES if one in matrices), None)
        neighbors = side("neighbors") if "neighbors" in matrices else None
        source = replace(
            _source(path, "npz", array),
            queries=queries,
            neighbors=neighbors,
            notes=(f"vectors are the array '{name}'",),
            on_close=(cleanup,),
        )
        known = {name, *_QUERIES, "neighbors", "distances"}
        columns = _side_columns(files, headers, known, headers[name].shape[0])
        return with_columns(source, name, columns, options)


def _side_columns(
    files: Mapping[str, Path], headers: Mapping[str, _Header], known: Set[str], rows: int
) -> SideColumns:
    """The arrays beside the known ones, as columns if they have a value for each row."""
    kinds: dict[str, pa.DataType] = {}
    for name, header in headers.items():
        if name not in known and header.shape == (rows,) and header.dtype.kind in "fiubU":
            text = header.dtype.kind == "U"
            kinds[name] = pa.string() if text else column_type(header.dtype)

    def read(name: str, start: int, stop: int) -> Any:
        return np.load(files[name], mmap_mode="r", allow_pickle=False)[start:stop]

    return SideColumns(kinds, read, [name for name in headers if name not in known | kinds.keys()])


def _source(path: Path, form: str, array: NDArray[Any]) -> VectorSource:
    rows, dim = array.shape
    return VectorSource(
        path, form, rows, dim, str(array.dtype), lambda step: array_blocks(array, step)
    )


def _mapped(path: Path, header: _Header, options: ReaderOptions, where: str) -> NDArray[Any]:
    """The first rows of a matrix, memory-mapped."""
    if header.dtype.kind not in "fiu" or len(header.shape) != 2:
        raise DataError(
            f"it holds {header.dtype} of shape {header.shape}, not a matrix of real numbers",
            where=where,
            remedy="rows by components, float or integer",
        )
    rows, dim = header.shape
    check_shape(rows, dim, where)
    available = path.stat().st_size - header.bytes
    # In Fortran's order rows lie scattered: all of it must be there, whichever are wanted.
    limited = replace(options, rows=None) if header.fortran_order else options
    fit = rows_that_fit(rows, dim * header.dtype.itemsize, available, limited, where)
    order: Any = "F" if header.fortran_order else "C"
    mapped = np.memmap(path, header.dtype, "r", header.bytes, (fit, dim), order)
    return np.asarray(mapped)[: options.rows]


def _read_header(path: Path, where: str) -> _Header:
    with path.open("rb") as file:
        start = io.BytesIO(file.read(_HEADER_BYTES))
    with reading(path, *_HEADER_ERRORS):
        version = npy.read_magic(start)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise DataError(f"npy version {version} is not known", where=where)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read(start)
    if dtype.hasobject:
        raise DataError(
            "it holds pickled Python objects, which can run any code when loaded",
            where=where,
            remedy="save it again as an array of float32: np.save(file, x.astype('float32'))",
        )
    return _Header(shape, fortran_order, dtype, start.tell())
