"""npy and npz, without ever unpickling anything; and columns of a matrix: arrays that lie beside it
in one file of npz or HDF5."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from vectrial.datasets.readers.base import (
    Block,
    ReaderOptions,
    VectorSource,
    array_blocks,
    check_growth,
    check_shape,
    check_side_bytes,
    choose,
    reading,
    rows_that_fit,
    unpacked,
)
from vectrial.datasets.readers.columns import ids_of, listed, odd_ids, plan_columns, stored_column
from vectrial.model.errors import DataError


@dataclass(frozen=True)
class SideColumns:
    """Arrays that lie beside a matrix of vectors, with a value for each of its rows.

    kinds: name → type. read: reads the values of one array for the rows from `start` to `stop`.
    others: names of arrays that are left out.
    """

    kinds: Mapping[str, pa.DataType]
    read: Callable[[str, int, int], Any]
    others: Sequence[str] = ()


def with_columns(
    source: VectorSource, vectors: str, side: SideColumns, options: ReaderOptions
) -> VectorSource:
    """A source with the arrays beside its vectors as metadata, or as ids.

    Raises:
        UserError: a requested column does not exist or cannot be used as requested.
    """
    notes = [f"left out: {listed(side.others)}"] if side.others else []
    if not side.kinds:
        return replace(source, notes=(*source.notes, *notes))
    where, kind = str(source.path), pa.list_(pa.float32(), source.dim)
    schema = pa.schema([pa.field(vectors, kind), *(pa.field(*one) for one in side.kinds.items())])
    options = replace(options, vectors=vectors)
    if options.ids is None and "ids" in side.kinds and pa.types.is_integer(side.kinds["ids"]):
        options = replace(options, ids="ids")
    plan = plan_columns(schema, options, where)
    if plan.ids is not None:
        column = [_array(side.read(plan.ids, 0, source.rows))]
        if (odd := odd_ids(column, side.kinds[plan.ids])) is not None:
            plan = plan_columns(schema, options, where, odd_ids=odd)

    def read(step: int) -> Iterator[Block]:
        at = 0
        for block in source.read(step):
            stop = at + len(block.vectors)
            ids = None
            if plan.ids is not None:
                ids = ids_of(_array(side.read(plan.ids, at, stop)), plan.ids, at, where)
            columns = [
                stored_column(_array(side.read(field.name, at, stop)), field, at, where)
                for field in plan.schema
            ]
            table = pa.Table.from_arrays(columns, schema=plan.schema) if columns else None
            yield Block(block.vectors, ids, table)
            at = stop

    return replace(
        source,
        read=read,
        columns=tuple(plan.schema.names),
        has_ids=plan.ids is not None,
        labels=plan.labels,
        notes=(*source.notes, *plan.notes, *notes),
    )


def column_type(dtype: np.dtype[Any]) -> pa.DataType:
    """The Arrow type of a column of numbers or booleans."""
    return pa.from_numpy_dtype(dtype.newbyteorder("="))


def _array(values: Any) -> Any:
    """Values of a file converted for Arrow, in this machine's byte order."""
    array = np.asarray(values)
    return pa.array(
        array.astype(array.dtype.newbyteorder("=")) if array.dtype.kind in "iuf" else array
    )


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
#: What zipfile raises on damaged files.
ZIP_ERRORS = (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError)
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

    Raises:
        DataError: see `check_growth`, and `open_npy`.
    """
    with reading(path, *ZIP_ERRORS), zipfile.ZipFile(path) as archive:
        check_growth(path, sum(member.file_size for member in archive.infolist()), options)
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
