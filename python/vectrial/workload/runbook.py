"""Runbooks: rows inserted, deleted and replaced step by step, with searches in between.

A row of the dataset is a vector; a tag is the id under which a store has it. The tag of an inserted
row is the row's own number; a replaced tag then has another row. These are the terms of the
streaming track of big-ann-benchmarks, whose YAML files are read unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.errors import UserError
from vectrial.util.suggest import suggestion


class Operation(StrEnum):
    """Operation of a step."""

    INSERT = "insert"
    DELETE = "delete"
    REPLACE = "replace"
    SEARCH = "search"


@dataclass(frozen=True)
class RunbookStep:
    """One step of a runbook: tags from `start` to `end` (exclusive) are inserted, deleted, or
    replaced by the rows from `rows` on. A search has neither."""

    operation: Operation
    start: int = 0
    end: int = 0
    rows: int = 0

    @property
    def tags(self) -> NDArray[np.int64]:
        """The tags of the step."""
        return np.arange(self.start, self.end, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of tags."""
        return self.end - self.start


class LiveRows:
    """The live rows, by their tags.

    Args:
        rows: number of rows of the dataset.
    """

    def __init__(self, rows: int) -> None:
        self._row_of = np.full(rows, -1, dtype=np.int64)

    @property
    def tags(self) -> NDArray[np.int64]:
        """Live tags, ascending."""
        return np.flatnonzero(self._row_of >= 0)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each live tag."""
        return self._row_of[self._row_of >= 0]

    def apply(self, step: RunbookStep) -> None:
        """Apply a step.

        Raises:
            UserError: it inserts a tag that is live, deletes or replaces one that is not, or names
                a row that the dataset lacks.
        """
        last = max(step.end, step.rows + step.count)
        if not 0 <= step.start <= step.end or last > len(self._row_of):
            raise UserError(f"{step.operation} of rows up to {last:,} of {len(self._row_of):,}")
        there = self._row_of[step.start : step.end] >= 0
        if step.operation is Operation.INSERT and there.any():
            raise UserError(f"insert of tag {step.start + int(there.argmax())}, which is there")
        if step.operation in (Operation.DELETE, Operation.REPLACE) and not there.all():
            gone = step.start + int(np.argmin(there))
            raise UserError(f"{step.operation} of tag {gone}, which is not there")
        match step.operation:
            case Operation.INSERT:
                self._row_of[step.start : step.end] = step.tags
            case Operation.DELETE:
                self._row_of[step.start : step.end] = -1
            case Operation.REPLACE:
                self._row_of[step.start : step.end] = step.rows + np.arange(step.count)


def check_steps(steps: Sequence[RunbookStep], rows: int) -> tuple[RunbookStep, ...]:
    """The steps, after checking that each can be applied to this many rows.

    Raises:
        UserError: one cannot, with its number.
    """
    live = LiveRows(rows)
    for number, step in enumerate(steps, 1):
        try:
            live.apply(step)
        except UserError as error:
            raise UserError(error.what, where=f"runbook, step {number}") from error
    return tuple(steps)


# -- runbooks of our own -----------------------------------------------------------------------

#: Steps that a file may have: published runbooks have a few thousand.
_MOST_STEPS = 20_000
#: Steps of a runbook after its first load.
_TURNS = 10


def sliding_window(rows: int) -> Iterator[RunbookStep]:
    """Keep the newest half live: insert a twentieth at a time, and delete as many of the oldest."""
    yield from _load(rows // 2)
    share = max(1, rows // (2 * _TURNS))
    for at in range(0, _TURNS * share, share):
        end = min(rows, rows // 2 + at + share)
        yield RunbookStep(Operation.INSERT, rows // 2 + at, end)
        yield RunbookStep(Operation.DELETE, at, at + end - rows // 2 - at)
        yield RunbookStep(Operation.SEARCH)


def replace(rows: int) -> Iterator[RunbookStep]:
    """Keep half of the rows live, and replace every tag in each turn, alternately by rows of the
    other half and of the first."""
    half = rows // 2
    yield from _load(half)
    for turn in range(_TURNS):
        yield RunbookStep(Operation.REPLACE, 0, half, 0 if turn % 2 else rows - half)
        yield RunbookStep(Operation.SEARCH)


def hot_updates(rows: int) -> Iterator[RunbookStep]:
    """Replace the same twentieth of the tags again and again."""
    half, hot = rows // 2, max(1, rows // (2 * _TURNS))
    yield from _load(half)
    for turn in range(_TURNS):
        yield RunbookStep(Operation.REPLACE, 0, hot, half + turn * hot)
        yield RunbookStep(Operation.SEARCH)


def expiry(rows: int) -> Iterator[RunbookStep]:
    """Insert all rows, and delete a twentieth at a time until half of them are left."""
    share = max(1, rows // (2 * _TURNS))
    yield from _load(rows)
    for turn in range(_TURNS):
        yield RunbookStep(Operation.DELETE, turn * share, (turn + 1) * share)
        yield RunbookStep(Operation.SEARCH)


def reload(rows: int) -> Iterator[RunbookStep]:
    """Delete all rows and insert them again, three times."""
    yield from _load(rows)
    for _ in range(3):
        yield RunbookStep(Operation.DELETE, 0, rows)
        yield from _load(rows)


def _load(rows: int) -> Iterator[RunbookStep]:
    yield RunbookStep(Operation.INSERT, 0, rows)
    yield RunbookStep(Operation.SEARCH)


#: Runbooks by name: the function that makes the steps. `drift` orders the rows first.
OWN: Mapping[str, Callable[[int], Iterator[RunbookStep]]] = {
    "sliding_window": sliding_window,
    "drift": sliding_window,
    "replace": replace,
    "hot_updates": hot_updates,
    "expiry": expiry,
    "reload": reload,
}
#: Runbooks whose rows come cluster by cluster.
ORDERED = frozenset({"drift"})


def cluster_order(vectors: NDArray[np.float32], seed: int, clusters: int = 16) -> NDArray[np.int64]:
    """Order of the rows in which one cluster follows another. A cluster has the rows nearest to the
    same one of `clusters` vectors drawn at random, in the dataset's order."""
    rng = np.random.default_rng(seed)
    pivots = vectors[np.sort(rng.choice(len(vectors), min(clusters, len(vectors)), replace=False))]
    norms = np.square(pivots).sum(axis=1)
    nearest = np.empty(len(vectors), np.int64)
    for at in range(0, len(vectors), 65_536):
        block = vectors[at : at + 65_536]
        nearest[at : at + len(block)] = np.argmin(norms - 2 * block @ pivots.T, axis=1)
    return np.argsort(nearest, kind="stable")


# -- those of big-ann-benchmarks ---------------------------------------------------------------


def read_steps(path: Path, rows: int, dataset: str = "") -> tuple[RunbookStep, ...]:
    """The steps of a YAML file of big-ann-benchmarks' streaming track. If they reach beyond `rows`,
    every position is scaled down: `max_pts`, the maximum number of live rows, may be less than
    that.

    Args:
        dataset: the dataset whose steps are read; none if the file has steps of only one.

    Raises:
        UserError: the file cannot be read, has no steps of that dataset, or of several and none is
            named, or a step of it is none.
    """
    book = _runbook_entry(path, dataset)
    numbers = sorted(key for key in book if isinstance(key, int))
    if len(numbers) > _MOST_STEPS:
        raise UserError(
            f"a runbook of {len(numbers):,} steps: at most {_MOST_STEPS:,} are measured",
            where=str(path),
            remedy="join its steps, or split it",
        )
    steps = [_step(book[number], number, path) for number in numbers]
    most = _required_rows(steps)
    return tuple(steps) if most <= rows else tuple(_scale_step(step, rows, most) for step in steps)


def _runbook_entry(path: Path, dataset: str) -> dict[object, Any]:
    """The entry of a dataset in a file, or the file's only entry."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"no runbook can be read: {error}", where=str(path)) from error
    except RecursionError as error:
        raise UserError("a runbook is not nested so deep", where=str(path)) from error
    books = content if isinstance(content, dict) else {}
    if not books or not all(isinstance(book, dict) for book in books.values()):
        raise UserError("not a runbook: expected a dataset with steps", where=str(path))
    names = [str(name) for name in books]
    if dataset and dataset not in names:
        remedy = suggestion(dataset, names) or f"one of {', '.join(names)}"
        raise UserError(f"no runbook of a dataset '{dataset}'", where=str(path), remedy=remedy)
    if not dataset and len(names) > 1:
        remedy = f"name one of them, as in {path}#{names[0]}: {', '.join(names)}"
        raise UserError(f"runbooks of {len(names)} datasets", where=str(path), remedy=remedy)
    found: dict[object, Any] = list(books.values())[names.index(dataset) if dataset else 0]
    return found


def _step(entry: Any, number: int, path: Path) -> RunbookStep:
    where = f"step {number}"
    if not isinstance(entry, dict) or entry.get("operation") not in list(Operation):
        every = ", ".join(Operation)
        raise UserError(f"{where} has no operation", where=str(path), remedy=f"one of {every}")

    def position(name: str) -> int:
        return _integer(entry.get(name), path, f"{where}: {name}")

    match operation := Operation(entry["operation"]):
        case Operation.SEARCH:
            return RunbookStep(operation)
        case Operation.REPLACE:
            start, end = position("tags_start"), position("tags_end")
            return RunbookStep(operation, start, end, position("ids_start"))
        case _:
            return RunbookStep(operation, position("start"), position("end"))


def _scale_step(step: RunbookStep, rows: int, most: int) -> RunbookStep:
    """A step of a runbook that uses `most` rows, scaled to `rows`."""
    start, end, at = (x * rows // most for x in (step.start, step.end, step.rows))
    # Two ranges of the same length may differ by a row once both are rounded.
    return RunbookStep(step.operation, start, end, min(at, rows - (end - start)))


def _integer(value: object, path: Path, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"{what} is no whole number", where=str(path))
    return value


def loads(steps: Sequence[RunbookStep]) -> float:
    """Rows written per row of the dataset: all rows that are inserted or replaced, and once more
    the rows that are live at the end. The steps are `check_steps`."""
    rows = {one: sum(s.count for s in steps if s.operation is one) for one in Operation}
    live = rows[Operation.INSERT] - rows[Operation.DELETE]
    return (rows[Operation.INSERT] + rows[Operation.REPLACE] + live) / max(1, _required_rows(steps))


def _required_rows(steps: Sequence[RunbookStep]) -> int:
    """The number of rows that the steps require."""
    return max((max(step.end, step.rows + step.count) for step in steps), default=0)


def replaced_counts(steps: Sequence[RunbookStep]) -> list[int]:
    """Number of tags replaced or deleted so far, after each step."""
    gone = (Operation.REPLACE, Operation.DELETE)
    return list(itertools.accumulate(s.count if s.operation in gone else 0 for s in steps))
