"""The suite that answers within a given time which stores are faster at equal recall.

Time is spent in this order: three repeats, since fewer show no difference; five search settings per
store, which make a curve; then stores; then rows; then more repeats, since every further load adds
evidence. If the time is too short, it is saved in the opposite order: rows shrink first, and the
three repeats are given up last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Index, IndexKind
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.plan.estimate import load_s, start_s, warm_up_of
from vectrial.plan.model import DatasetShape, turns_s
from vectrial.suite.model import Suite
from vectrial.suite.validation import validate

#: Repeats that a verdict needs.
REPEATS = 3
#: Search settings per store: for a curve, for a coarse curve, and for the least curve.
SETTINGS = (5, 4, 3)
#: Numbers of rows to choose from. Fewer than `_ENOUGH_ROWS` say little about an index: then rather
#: fewer stores, down to `_FEWEST_STORES`.
_ROWS = (1_000_000, 500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000)
_ENOUGH_ROWS, _FEWEST_STORES = 10_000, 3
#: Build parameters of every index that has both, so that graphs of equal effort are compared.
_GRAPH = {"m": 16, "ef_construction": 128}

#: Seconds of one run: from the command to the first job, and from the last job to the answer.
START_S, END_S = 6.0, 4.0
#: Seconds of the trials of one job beside its load and its searches.
_OTHERS_S = 1.0
#: Factor by which a load may take longer than estimated.
_SLOWER = 2.0
#: Seconds of one search setting and repeat, which turns need for their rounds.
_SEARCH_S = 0.8
#: Repeats at most, and the share of the time that those beyond the third may fill.
_MOST_REPEATS, _SPENT = 10, 0.7


@dataclass(frozen=True)
class Contender:
    """A store, and the kind of index to build."""

    store: type[Store]
    index: str

    @property
    def kind(self) -> IndexKind:
        """The kind of index."""
        return self.store.capabilities.indexes[self.index]

    @property
    def params(self) -> dict[str, int]:
        """Its build parameters, equal for all graphs."""
        return dict(_GRAPH) if _GRAPH.keys() <= self.kind.build.model_fields.keys() else {}


@dataclass(frozen=True)
class QuickOptions:
    """Options of the quick comparison.

    budget_s: seconds of the whole command. named: the stores were named: all of them are measured,
        if the time allows one repeat of each. rows: exact number of rows; None: as many as fit.
    """

    budget_s: float
    named: bool = False
    rows: int | None = None
    k: int = 10
    clients: int = 1


@dataclass(frozen=True)
class QuickPlan:
    """A suite, the seconds that the whole command takes, and the stores that do not fit."""

    suite: Suite
    estimate_s: float
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Size:
    """Size of a comparison. stores: number of stores, from the first. settings: number per
    store."""

    stores: int
    repeats: int
    settings: int
    rows: int


def quick_plan(
    contenders: Sequence[Contender], shape: DatasetShape, options: QuickOptions
) -> QuickPlan:
    """The plan that fits the time available, with the first of the contenders.

    Args:
        contenders: at least one, in order of preference; the first is measured first.

    Raises:
        UserError: the time is too short for one store, or too few rows are asked for.
    """
    fixed = options.rows
    rows = [fixed] if fixed is not None else _rows_of(shape.rows, options.k)
    sizes = _sizes(len(contenders), rows, named=options.named)
    estimates = ((size, _estimate_s(contenders, shape.dim, size)) for size in sizes)
    fitting = (size for size, seconds in estimates if seconds <= options.budget_s)
    size = next(fitting, None)
    if size is None:
        least = _Size(1, 1, SETTINGS[-1], rows[-1])
        needed = _estimate_s(contenders, shape.dim, least)
        raise UserError(
            f"{_minutes(options.budget_s)} minutes are too short for {contenders[0].store.name}"
            f" on {rows[-1]:,} rows",
            where="--minutes",
            remedy=f"--minutes {_minutes(needed + 3)}" + (" or fewer --rows" if fixed else ""),
        )
    if size.repeats == REPEATS:
        size = _with_repeats(contenders, shape.dim, size, options)
    chosen, left = contenders[: size.stores], contenders[size.stores :]
    return QuickPlan(
        _suite(chosen, shape, size, options),
        _estimate_s(contenders, shape.dim, size),
        tuple(one.store.name for one in left),
    )


def _rows_of(available_rows: int, k: int) -> list[int]:
    """Numbers of rows to choose from, descending: all of a dataset, and round parts of it."""
    return [available_rows, *(rows for rows in _ROWS if max(k, _ROWS[-1]) <= rows < available_rows)]


def _sizes(stores: int, rows: Sequence[int], *, named: bool) -> Iterator[_Size]:
    """Every possible size, the best first."""
    enough = [n for n in rows if n >= _ENOUGH_ROWS] or list(rows[:1])
    fewest = stores if named else min(stores, _FEWEST_STORES)
    for count in range(stores, fewest, -1):
        for settings in SETTINGS[:2]:
            yield from (_Size(count, REPEATS, settings, n) for n in enough)
    for count in range(fewest, 0, -1):
        for repeats in range(REPEATS, 0, -1):
            for settings in SETTINGS:
                yield from (_Size(count, repeats, settings, n) for n in rows)


def _estimate_s(contenders: Sequence[Contender], dim: int, size: _Size) -> float:
    search = EXPERIMENTS["search"].model_validate({"min_s": _SEARCH_S})
    one_s = turns_s(search.turn_time({}))
    round_s = 0.0
    for one in contenders[: size.stores]:
        searches = size.settings if one.kind.recall_parameter else 1
        index = Index(one.index, one.kind.build.model_validate(one.params))
        load = _SLOWER * load_s(one.store, index, size.rows, dim)
        first_s = start_s(one.store) + warm_up_of(one.store, None)
        round_s += first_s + load + _OTHERS_S + searches * one_s
    return START_S + size.repeats * round_s + END_S


def _with_repeats(
    contenders: Sequence[Contender], dim: int, size: _Size, options: QuickOptions
) -> _Size:
    """The size with more repeats if there is time for them, and to spare on a slower machine."""
    more = (replace(size, repeats=count) for count in range(_MOST_REPEATS, REPEATS, -1))
    able = (one for one in more if _estimate_s(contenders, dim, one) <= _SPENT * options.budget_s)
    return next(able, size)


def _suite(
    chosen: Sequence[Contender], shape: DatasetShape, size: _Size, options: QuickOptions
) -> Suite:
    rows = {} if size.rows == shape.rows else {"rows": size.rows}
    settings = search_settings([one.kind for one in chosen], options.k, size.settings)
    search: dict[str, Any] = {
        "experiment": "search",
        "clients": options.clients,
        "search": settings,
        "min_s": _SEARCH_S,
        "max_s": 2 * _SEARCH_S,
    }
    plain: dict[str, Any] = {
        "name": "quick",
        "repeats": size.repeats,
        "order": "turns",
        "k": options.k,
        "trial_timeout_s": max(20.0, options.budget_s / 2),
        "datasets": [{"name": shape.name, **rows}],
        "stores": [store_entry(one) for one in chosen],
        "experiments": [
            {"experiment": "ingest", "checkpoints": [1.0], "probes": 0},
            {"experiment": "storage"},
            search,
        ],
    }
    return validate(Suite, plain, "vectrial quick")


def plain_suite(
    name: str,
    dataset: Mapping[str, Any],
    chosen: Sequence[Contender],
    experiments: Sequence[str],
    repeats: int = REPEATS,
    k: int = 10,
) -> dict[str, Any]:
    """The suite that compares stores on equal terms: indexes of equal effort, and a range of search
    settings that all of them take.

    dataset: its entry in the suite.
    """
    settings = search_settings([one.kind for one in chosen], k, SETTINGS[0])
    return {
        "name": name,
        "repeats": repeats,
        "order": "turns",
        "k": k,
        "datasets": [dataset],
        "stores": [store_entry(one) for one in chosen],
        "experiments": [_experiment_entry(one, settings) for one in dict.fromkeys(experiments)],
    }


def _experiment_entry(name: str, settings: Mapping[str, list[int]]) -> dict[str, Any]:
    """The entry of an experiment, with search settings if it takes lists of them."""
    kind = EXPERIMENTS[name]
    if not settings or "search" not in kind.model_fields:
        return {"experiment": name}
    try:
        kind.model_validate({"search": settings})
    except ValidationError:  # it takes one value, and has its own way to find it
        return {"experiment": name}
    return {"experiment": name, "search": settings}


def store_entry(contender: Contender) -> dict[str, Any]:
    """The entry of a store in a suite."""
    return {
        "store": contender.store.name,
        "index": contender.index,
        **({"params": contender.params} if contender.params else {}),
    }


def search_settings(kinds: Sequence[IndexKind], k: int, count: int) -> dict[str, list[int]]:
    """For each parameter that trades speed for recall, values that all of these indexes take:
    `count` of them, evenly spread on a logarithmic scale."""
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for kind in kinds:
        if kind.recall_parameter is not None:
            values = parameter_values(kind, k)
            ranges[kind.recall_parameter].append((values[0], values[-1]))
    found = {}
    for name, bounds in ranges.items():
        low = max(least for least, _ in bounds)
        high = max(low, min(most for _, most in bounds))
        spread = np.geomspace(low, high, count)
        found[name] = list(dict.fromkeys(round(float(value)) for value in spread))
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.2g}"
