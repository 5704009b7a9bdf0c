"""The content of a dataset as a source hands it to the catalogue, and parts dear to compute."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers import Block
from vectrial.model.errors import UserError
from vectrial.model.filters import Filter
from vectrial.model.progress import Progress
from vectrial.util import paths

#: Values of the column `random_number`, which has nothing to do with the vectors: the
#: independent control beside filters on columns that do.
RANDOM_NUMBERS = 10_000


@dataclass(frozen=True)
class Material:
    """All parts of a dataset but its name, metric and provenance; shapes as in `Dataset`.

    vectors: (n, d), or blocks of rows, which then bring their own ids and metadata if any.
    notes: what a reader of the results must know about how it was made.
    """

    vectors: NDArray[Any] | Iterable[Block]
    queries: NDArray[Any]
    metadata: pa.Table | None = None
    filters: Sequence[Filter | None] | None = None
    notes: tuple[str, ...] = ()
    query_metadata: pa.Table | None = None


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """The numbers below `count` in an order that is the same on every machine and version.

    numpy freezes the stream of RandomState, while the stream of Generator may change.
    """
    return np.random.RandomState(seed).permutation(count).astype(np.int64)


def hold_out(count: int, queries: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that stay, in their order, and `queries` rows that are held out as queries.

    Raises:
        UserError: fewer than one row would stay.
    """
    if queries >= count:
        raise UserError(
            f"{queries} queries cannot be held out of {count} rows", remedy="ask for more rows"
        )
    taken = np.sort(permutation(count, seed)[:queries])
    stays = np.ones(count, dtype=bool)
    stays[taken] = False
    return np.flatnonzero(stays).astype(np.int64), taken


def random_numbers(count: int, seed: int) -> NDArray[np.int64]:
    """The column `random_number`: uniform below `RANDOM_NUMBERS`; shape (count,)."""
    return np.random.RandomState(seed).randint(0, RANDOM_NUMBERS, count, dtype=np.int64)


def in_hash_order(texts: Sequence[str]) -> list[int]:
    """Rows of the distinct texts (first occurrences), ordered by the sha256 of their text.

    A shuffle without a generator: which rows come first does not depend on how many there are,
    so that a longer list begins, nearly, with the rows of a shorter one.
    """
    first = {text: row for row, text in reversed(list(enumerate(texts)))}
    return sorted(first.values(), key=lambda row: hashlib.sha256(texts[row].encode()).digest())


def at_most(available: int, rows: int | None, what: str) -> int:
    """`rows`, or the number available if None.

    Raises:
        UserError: more rows are requested than there are.
    """
    if rows is None:
        return available
    if not 1 <= rows <= available:
        raise UserError(
            f"{rows} rows were asked for, and {what} has {available}",
            remedy=f"a number from 1 to {available}",
        )
    return rows


def extra(module: str) -> Any:
    """A module of the extra `data`.

    Raises:
        UserError: it is not installed; the message names the command that installs it.
    """
    try:
        found: ModuleType = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"making this dataset needs {module}, which is not installed",
            remedy="pip install 'vectrial[data]'",
        ) from error
    return found


BLOCK_ROWS = 2_000


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
    for start in range(0, count, BLOCK_ROWS):
        progress(start, count, what)
        rows = slice(start, min(start + BLOCK_ROWS, count))
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
