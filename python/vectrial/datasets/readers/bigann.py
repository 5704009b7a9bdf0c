"""fbin, f16bin, u8bin, i8bin, ibin (big-ann-benchmarks, cuVS): a header and a plain matrix.

The header is uint32 n and uint32 d, little-endian; n·d components follow, row by row. A file
`NAME.fbin.crop_nb_N` has the first N rows, under the header of all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vectrial.datasets.readers.base import (
    ReaderOptions,
    VectorSource,
    array_blocks,
    check_shape,
    rows_that_fit,
)
from vectrial.model.errors import DataError

DTYPES: dict[str, np.dtype[Any]] = {
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
    dtype = DTYPES[suffix]
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
