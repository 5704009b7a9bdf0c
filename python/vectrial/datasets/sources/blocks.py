"""Results that are dear to compute, kept block by block.

A block is known by what it was computed from, so that an interrupted computation goes on where
it stopped, and a small variant of a dataset shares its work with the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vectrial.model.progress import Progress
from vectrial.util import paths

ROWS = 2_000


def computed(
    count: int,
    width: int,
    *,
    recipe: str,
    content: Callable[[slice], bytes],
    compute: Callable[[slice], NDArray[np.float32]],
    progress: Progress,
    what: str,
) -> NDArray[np.float32]:
    """All rows (count, width); the rows of a known block are read instead of computed.

    Args:
        recipe: model and settings; anything that changes the result.
        content: the bytes that the rows of a slice are computed from.
        compute: the rows of a slice, float32 (rows, width).
    """
    folder = paths.downloads_dir() / "computed" / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    out = np.empty((count, width), dtype=np.float32)
    for start in range(0, count, ROWS):
        progress(start, count, what)
        rows = slice(start, min(start + ROWS, count))
        file = folder / f"{hashlib.sha256(content(rows)).hexdigest()[:32]}.npy"
        if file.is_file():
            out[rows] = np.load(file, allow_pickle=False)
            continue
        out[rows] = compute(rows)
        partial = file.with_suffix(".part")
        with partial.open("wb") as sink:
            np.save(sink, out[rows], allow_pickle=False)
        partial.replace(file)
    progress(count, count, what)
    return out
