"""Plain matrices in files of their own, and folders in which base, queries and neighbours lie so.

fvecs, ivecs, bvecs (http://corpus-texmex.irisa.fr): every row is a little-endian int32 d, and d
components follow it: float32, int32 or uint8.

fbin, f16bin, u8bin, i8bin, ibin (big-ann-benchmarks, cuVS): a header of uint32 n and uint32 d,
little-endian; n·d components follow, row by row. A file `NAME.fbin.crop_nb_N` has the first N rows,
under the header of all.

Folders of texmex: `sift_base.fvecs`, `sift_query.fvecs`, `sift_groundtruth.ivecs` (Euclidean
distance). Those of cuVS: `base.fbin`, `query.fbin`, `groundtruth.neighbors.ibin` (the metric is not
said).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.readers.base import (
    Block,
    ReaderOptions,
    VectorSource,
    array_blocks,
    check_shape,
    check_side_bytes,
    rows_that_fit,
)
from vectrial.model.errors import DataError
from vectrial.model.metric import Metric

TEXMEX_TYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".ivecs": np.dtype("<i4"),
    ".bvecs": np.dtype("u1"),
}


def open_texmex(path: Path, options: ReaderOptions) -> VectorSource:
    """Open an fvecs, ivecs or bvecs file, memory-mapped.

    Raises:
        DataError: its size is not a whole number of rows, or (on reading) a row's length differs.
    """
    dtype = TEXMEX_TYPES[path.suffix.lower()]
    where, size = str(path), path.stat().st_size
    if size < 4:
        raise DataError(f"{size} bytes are too few for a row", where=where)
    raw = np.memmap(path, np.uint8, mode="r")
    dim = int(raw[:4].view("<i4")[0])
    check_shape(1, dim, where)
    row_bytes = 4 + dim * dtype.itemsize
    rows, rest = divmod(size, row_bytes)
    if rest and not (options.rows and options.rows <= rows):
        raise DataError(
            f"after {rows} rows of {row_bytes} bytes, {rest} bytes are left over",
            where=f"{where}, offset {rows * row_bytes}",
            remedy=f"it is cut short or its rows differ in length; `--rows {rows}` leaves them out"
            if rows
            else "it is damaged, or of another format",
        )
    table = np.asarray(raw[: rows * row_bytes]).reshape(rows, row_bytes)
    table = table if options.rows is None else table[: options.rows]

    def read(step: int) -> Iterator[Block]:
        for start in range(0, len(table), step):
            yield Block(_values(table[start : start + step], dim, dtype, start, where))

    return VectorSource(path, path.suffix[1:].lower(), len(table), dim, str(dtype), read)


def _values(
    rows: NDArray[np.uint8], dim: int, dtype: np.dtype[Any], first: int, where: str
) -> NDArray[Any]:
    lengths = np.ascontiguousarray(rows[:, :4]).view("<i4")[:, 0]
    other = np.flatnonzero(lengths != dim)
    if other.size:
        row = int(other[0])
        raise DataError(
            f"the row claims {lengths[row]} components where the first has {dim}",
            where=f"{where}, row {first + row}, offset {(first + row) * rows.shape[1]}",
            remedy="every vector must have the same number of components",
        )
    return np.ascontiguousarray(rows[:, 4:]).view(dtype)


BIGANN_TYPES: dict[str, np.dtype[Any]] = {
    ".fbin": np.dtype("<f4"),
    ".f16bin": np.dtype("<f2"),
    ".u8bin": np.dtype("u1"),
    ".i8bin": np.dtype("i1"),
    ".ibin": np.dtype("<i4"),
}
_HEADER_BYTES = 8
_CROP = re.compile(r"\.crop_nb_(\d+)$")


def suffix_of(path: Path) -> str:
    """The suffix that indicates the format, in lower case, without a crop's own ending."""
    return Path(_CROP.sub("", path.name)).suffix.lower()


def open_bigann(path: Path, options: ReaderOptions) -> VectorSource:
    """Open a *bin file, memory-mapped; `options.rows` reads a crop that kept its old header.

    Raises:
        DataError: the file's size is not what its header claims.
    """
    suffix, where = suffix_of(path), str(path)
    dtype = BIGANN_TYPES[suffix]
    if crop := _CROP.search(path.name):
        rows = int(crop[1])
        options = replace(options, rows=min(options.rows or rows, rows))
    size = path.stat().st_size
    if size < _HEADER_BYTES:
        raise DataError(f"{size} bytes are too few for a header of 8", where=where)
    claimed, dim = (int(value) for value in np.fromfile(path, "<u4", 2))
    check_shape(claimed, dim, where)
    rows = rows_that_fit(claimed, dim * dtype.itemsize, size - _HEADER_BYTES, options, where)
    array = np.asarray(np.memmap(path, dtype, "r", _HEADER_BYTES, (rows, dim)))
    return VectorSource(
        path, suffix[1:], rows, dim, str(dtype), lambda step: array_blocks(array, step)
    )


def is_pair(folder: Path) -> bool:
    """True if the folder has a base file of this layout."""
    return _base(folder) is not None


def open_pair(folder: Path, options: ReaderOptions) -> VectorSource:
    """Open base, queries and neighbours of a folder of this layout as one source."""
    base = _base(folder)
    if base is None:
        raise AssertionError("is_pair said so")
    is_texmex = base.suffix in TEXMEX_TYPES
    opener = open_texmex if is_texmex else open_bigann
    prefix = base.stem.removesuffix("base")
    source = opener(base, options)
    queries = _whole(
        opener, folder, [f"{prefix}query{base.suffix}", f"{prefix}queries{base.suffix}"]
    )
    names = [f"{prefix}groundtruth.ivecs", f"{prefix}groundtruth.neighbors.ibin"]
    return replace(
        source,
        path=folder,
        format=f"{source.format} folder",
        metric=Metric.L2 if is_texmex else None,
        queries=queries,
        neighbors=_whole(opener, folder, names),
        notes=("texmex sets are measured in Euclidean distance",) if is_texmex else (),
    )


def _base(folder: Path) -> Path | None:
    for suffix in (*TEXMEX_TYPES, *BIGANN_TYPES):
        files = [file for file in folder.glob(f"*base{suffix}") if not file.name.startswith(".")]
        if len(files) == 1:
            return files[0]
    return None


def _whole(
    opener: Callable[[Path, ReaderOptions], VectorSource], folder: Path, names: list[str]
) -> NDArray[Any] | None:
    file = next((folder / name for name in names if (folder / name).is_file()), None)
    if file is None:
        return None
    check_side_bytes(file.stat().st_size, str(file))
    source = opener(file, ReaderOptions())
    # Neighbours pass through the same reader: float32 would lose ids past 2^24.
    return np.concatenate([block.vectors for block in source.read(1 << 16)])
