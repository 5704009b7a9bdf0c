"""fvecs, ivecs, bvecs (http://corpus-texmex.irisa.fr): every row is its length and its values.

A row is a little-endian int32 d followed by d components: float32, int32 or uint8.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource, check_shape
from vectrial.model.errors import DataError

DTYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".ivecs": np.dtype("<i4"),
    ".bvecs": np.dtype("u1"),
}


def open_texmex(path: Path, options: ReaderOptions) -> VectorSource:
    """Open an fvecs, ivecs or bvecs file, memory-mapped.

    Raises:
        DataError: its size is not a whole number of rows, or (on reading) a row's length differs.
    """
    dtype = DTYPES[path.suffix.lower()]
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
