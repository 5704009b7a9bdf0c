"""npy and npz, without ever unpickling anything."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from vectrial.datasets.readers.base import (
    Block,
    Options,
    Source,
    array_blocks,
    check_shape,
    check_side_bytes,
    choose,
    reading,
    rows_that_fit,
)
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
#: What the standard library raises on damaged zip files and npy headers.
ZIP_ERRORS = (
    *_HEADER_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,  # an encrypted member
    OSError,
)
_VECTORS = ("train", "vectors", "embeddings", "emb", "X", "x", "data", "base", "arr_0")
_QUERIES = ("test", "queries", "query")


@dataclass(frozen=True)
class _Header:
    """What stands before an array's elements."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    bytes: int

    @property
    def elements_bytes(self) -> int:
        total = self.dtype.itemsize
        for length in self.shape:
            total *= length
        return total


def open_npy(path: Path, options: Options) -> Source:
    """Open an .npy file with a matrix of numbers, memory-mapped.

    Raises:
        DataError: it holds Python objects, is no matrix of numbers, or is cut short.
    """
    where = str(path)
    with path.open("rb") as file, reading(path, *_HEADER_ERRORS):
        header = _read_header(file, where)
    rows, dim = _matrix_shape(header, where)
    available = path.stat().st_size - header.bytes
    if header.fortran_order:
        # Its rows lie scattered: all of it must be there, whichever rows are wanted.
        rows_that_fit(rows, dim * header.dtype.itemsize, available, Options(), where)
        fit = min(options.rows or rows, rows)
        mapped = np.memmap(path, header.dtype, "r", header.bytes, (rows, dim), "F")
    else:
        fit = rows_that_fit(rows, dim * header.dtype.itemsize, available, options, where)
        mapped = np.memmap(path, header.dtype, "r", header.bytes, (fit, dim))
    array = np.asarray(mapped)[:fit]
    return Source(path, "npy", fit, dim, str(header.dtype), lambda step: array_blocks(array, step))


def open_npz(path: Path, options: Options) -> Source:
    """Open an .npz file: one array of vectors, and if there is one, `test` or `queries`.

    Members are decompressed as they are read, block by block.
    """
    with reading(path, *ZIP_ERRORS), zipfile.ZipFile(path) as bundle:
        headers = {}
        for info in bundle.infolist():
            if info.filename.endswith(".npy"):
                with bundle.open(info) as file:
                    header = _read_header(file, f"{path}, {info.filename}")
                headers[info.filename.removesuffix(".npy")] = header
                _check_member(header, info, path)
        matrices = [name for name, header in headers.items() if len(header.shape) == 2]
        wanted = [name for name in matrices if name not in (*_QUERIES, "neighbors", "distances")]
        name = choose(
            options.vectors,
            matrices if options.vectors else wanted,
            usual=_VECTORS,
            what="array of vectors",
            where=str(path),
        )
        queries = next((_load(bundle, q, headers[q]) for q in _QUERIES if q in matrices), None)
        neighbors = None
        if (
            queries is not None
            and "neighbors" in matrices
            and headers["neighbors"].shape[0] == len(queries)
        ):
            neighbors = _load(bundle, "neighbors", headers["neighbors"]).astype(np.int64)
    header = headers[name]
    claimed, dim = _matrix_shape(header, f"{path}, {name}")
    rows = min(options.rows or claimed, claimed)

    def read(step: int) -> Iterator[Block]:
        with reading(path, *ZIP_ERRORS), zipfile.ZipFile(path) as bundle:
            if header.fortran_order:
                yield from array_blocks(_load(bundle, name, header)[:rows], step)
                return
            with bundle.open(f"{name}.npy") as file:
                _take(file, header.bytes)
                for start in range(0, rows, step):
                    count = min(step, rows - start)
                    raw = _take(file, count * dim * header.dtype.itemsize)
                    yield Block(np.frombuffer(raw, header.dtype).reshape(count, dim))

    return Source(
        path,
        "npz",
        rows,
        dim,
        str(header.dtype),
        read,
        queries=queries,
        neighbors=neighbors,
        notes=(f"vectors are the array '{name}'",),
    )


def _read_header(file: IO[bytes], where: str) -> _Header:
    counted = _Counting(file)
    version = npy.read_magic(counted)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise DataError(f"npy version {version} is not known", where=where)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran_order, dtype = read(counted)
    if dtype.hasobject:
        raise DataError(
            "it holds pickled Python objects, which can run any code when loaded",
            where=where,
            remedy="save it again as an array of float32: np.save(file, x.astype('float32'))",
        )
    return _Header(shape, fortran_order, dtype, counted.count)


class _Counting(io.RawIOBase):
    """Knows how far a header reaches; refuses one that claims to be longer than any is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.count = file, 0

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= 1 << 16:
            raise ValueError(f"a header of {size} bytes is not possible")
        data = self._file.read(size)
        self.count += len(data)
        return data


def _matrix_shape(header: _Header, where: str) -> tuple[int, int]:
    if header.dtype.kind not in "fiu" or len(header.shape) != 2:
        raise DataError(
            f"it holds {header.dtype} of shape {header.shape}, not a matrix of real numbers",
            where=where,
            remedy="rows by components, float or integer",
        )
    rows, dim = header.shape
    check_shape(rows, dim, where)
    return rows, dim


def _check_member(header: _Header, info: zipfile.ZipInfo, path: Path) -> None:
    if min(header.shape, default=0) < 0 or (header.bytes + header.elements_bytes != info.file_size):
        raise DataError(
            f"the header claims shape {header.shape} of {header.dtype}, and the member has"
            f" {info.file_size} bytes",
            where=f"{path}, {info.filename}",
            remedy="it is damaged",
        )
    # Deflate packs at most 1032 to 1: more is a claim, not content.
    if info.file_size > 1100 * max(info.compress_size, 1024):
        raise DataError(
            f"{info.compress_size} packed bytes claim to be {info.file_size}",
            where=f"{path}, {info.filename}",
            remedy="it is damaged",
        )


def _load(bundle: zipfile.ZipFile, name: str, header: _Header) -> NDArray[Any]:
    check_side_bytes(header.elements_bytes, name)
    with bundle.open(f"{name}.npy") as file:
        _take(file, header.bytes)
        chunks = []
        left = header.elements_bytes
        while left:
            chunks.append(_take(file, min(left, 1 << 20)))
            left -= len(chunks[-1])
    flat = np.frombuffer(b"".join(chunks), header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def _take(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise EOFError("the array ends early")
    return data
