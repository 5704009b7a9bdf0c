"""Reasons why some published figures are not credible, derived from the figures themselves.

The checks are for faults that the five reports have: rows that contradict arithmetic, different
figures for the same thing, a series filed under two settings, values that share their digits, and
builds that depend on things that cannot matter, or not on things that must.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import median

from vectrial.model.consistency import contradictions
from vectrial_reproduce.reports.published import PublishedFigure, Scalar, figures

#: Ours of a published metric and unit, and what the value is multiplied by.
_OURS = {
    ("qps", "queries/s"): ("qps", 1.0),
    ("latency_mean", "ms"): ("latency_mean", 1e3),
    ("latency_p50", "ms"): ("latency_p50", 1e3),
    ("latency_p99", "ms"): ("latency_p99", 1e3),
    ("recall", "1"): ("recall_mean", 1.0),
    ("disk", "MB"): ("disk_bytes", 1e6),
}
#: Two places say the same where they differ by no more, as where one is read off a plot.
_ALIKE = 0.03
#: Ratio of the times of one build under different searches, from which it is reported.
_UNSTEADY = 1.25
#: A build that takes this much longer at most for whatever is built.
_INDIFFERENT = 1.05
#: Number of values with the same four decimals that is no chance.
_SHARED, _DECIMALS = 3, 4
#: Settings of searches alone, on which no build depends.
_OF_SEARCHES = frozenset({"ef_search", "clients", "queries"})

_Doubt = tuple[int, str]


@cache
def inconsistencies(report: str) -> tuple[tuple[str, ...], ...]:
    """The reasons why each of `figures(report)`, in its order, is not credible; mostly empty."""
    every = figures(report)
    found: list[list[str]] = [[] for _ in every]
    for look in (
        _contradictory_rows,
        _differing_values,
        _duplicated_series,
        _equal_digit_doubts,
        _unsteady_builds,
        _equal_builds,
    ):
        for at, sentence in look(every):
            found[at].append(sentence)
    return tuple(tuple(dict.fromkeys(said)) for said in found)


def _group_figures(
    every: Sequence[PublishedFigure], group_keys: Mapping[int, Hashable]
) -> Iterator[list[tuple[int, PublishedFigure]]]:
    """Figures with their positions, grouped by `group_keys`; positions missing in it are left
    out."""
    groups: dict[Hashable, list[tuple[int, PublishedFigure]]] = defaultdict(list)
    for at, key in group_keys.items():
        groups[key].append((at, every[at]))
    yield from groups.values()


def _settings(figure: PublishedFigure, without: frozenset[str] = frozenset()) -> Hashable:
    return tuple(sorted((n, v) for n, v in figure.params.items() if n not in without))


def _rounding(figure: PublishedFigure) -> float:
    """Half a unit of the last digit that is shown, relative to the value."""
    return 0.5 * 10.0 ** -len(_decimals(figure)) / figure.value


def _decimals(figure: PublishedFigure) -> str:
    """The digits after the decimal point."""
    return f"{figure.value!r}".partition(".")[2] if figure.value % 1 else ""


def _contradictory_rows(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about rows whose figures contradict each other."""
    rows = {at: (f.experiment, f.store, _settings(f)) for at, f in enumerate(every)}
    for row in _group_figures(every, rows):
        values, rounding = dict[str, float | None](), 1e-6
        for _, figure in row:
            if (ours := _OURS.get((figure.metric, figure.unit))) is not None:
                name, factor = ours
                values[name] = figure.value * factor
                rounding += _rounding(figure)
        about = row[0][1].params
        if "disk_bytes" in values:
            values["raw_bytes"] = 4.0 * int(about["rows"]) * _dim(str(about["dataset"]))
        clients = int(about["clients"]) if "clients" in about else None
        for sentence in contradictions(values, clients=clients, rounding=rounding):
            yield from ((at, sentence) for at, _ in row)


def _dim(dataset: str) -> int:
    """The dimension of a dataset: the number in the name of every dataset of the reports."""
    found = re.search(r"-(\d+)", dataset)
    assert found is not None, dataset
    return int(found[1])


def _differing_values(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about a quantity with different values in two places."""
    same = {
        at: (f.store, f.metric, f.unit, _settings(_without_single_shard(f), frozenset({"queries"})))
        for at, f in enumerate(every)
    }
    for group in _group_figures(every, same):
        for at, figure in group:
            for _, other in group:
                if abs(figure.value / other.value - 1) > _ALIKE:
                    unit = "" if other.unit == "1" else f" {other.unit}"
                    yield at, f"{other.value:g}{unit} in {_place(other)}"


def _without_single_shard(figure: PublishedFigure) -> PublishedFigure:
    """The figure without "one shard", which is the default of figures that name none."""
    kept = {n: v for n, v in figure.params.items() if (n, v) != ("shards", 1)}
    return replace(figure, params=kept)


def _place(figure: PublishedFigure) -> str:
    return figure.source.split("; ")[0].replace("result file ", "the result file ")


def _duplicated_series(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about a series over clients filed under two settings: three or more equal values."""
    of = {
        at: (f.experiment, f.store, f.metric, _settings(f, frozenset({"clients", "queries"})))
        for at, f in enumerate(every)
        if "clients" in f.params
    }
    series = [{f.params["clients"]: (at, f) for at, f in one} for one in _group_figures(every, of)]
    series = [one for one in series if len(one) >= _SHARED]
    for one in series:
        for other in series:
            (_, first), (_, second) = next(iter(one.values())), next(iter(other.values()))
            mine, yours = (
                _settings(_without_single_shard(f), _OF_SEARCHES) for f in (first, second)
            )
            if one.keys() == other.keys() and mine != yours and _are_all_equal(one, other):
                for at, _ in one.values():
                    yield at, f"the very values of {_place(second)}, there under other settings"


def _are_all_equal(
    one: Mapping[Scalar, tuple[int, PublishedFigure]],
    other: Mapping[Scalar, tuple[int, PublishedFigure]],
) -> bool:
    """True if the values are equal up to rounding, and of the same store and metric."""
    return all(
        a.store == b.store
        and a.metric == b.metric
        and abs(a.value / b.value - 1) <= _rounding(a) + _rounding(b)
        for (_, a), (_, b) in ((one[at], other[at]) for at in one)
    )


def _equal_digit_doubts(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about separate values of a store with equal last digits: typed, or derived."""
    of = {
        at: (f.store, f.metric, _decimals(f))
        for at, f in enumerate(every)
        if len(_decimals(f)) >= _DECIMALS and f.unit != "1"
    }
    for group in _group_figures(every, of):
        if len(group) >= _SHARED:
            digits = _decimals(group[0][1])
            for at, _ in group:
                yield at, f"{len(group)} values of this metric end in .{digits}"


def _builds(
    every: Sequence[PublishedFigure],
) -> dict[str, dict[Hashable, list[tuple[int, PublishedFigure]]]]:
    """Times to create a collection, by store and by what was built."""
    builds: dict[str, dict[Hashable, list[tuple[int, PublishedFigure]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for at, figure in enumerate(every):
        if figure.metric == "create" and "ef_construction" in figure.params:
            builds[figure.store][_settings(figure, _OF_SEARCHES)].append((at, figure))
    return builds


def _unsteady_builds(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about a build whose time depends on the searches made afterwards."""
    for own in _builds(every).values():
        for group in own.values():
            least = min(f.value for _, f in group)
            most = max(f.value for _, f in group)
            if most > _UNSTEADY * least:
                for at, figure in group:
                    yield (
                        at,
                        (
                            f"{least:g} to {most:g} {figure.unit} for one and the same build: they"
                            " differ only in searches made afterwards"
                        ),
                    )


def _equal_builds(every: Sequence[PublishedFigure]) -> Iterator[_Doubt]:
    """Doubts about builds of one store that all take the same time, unlike others' builds."""
    for own in _builds(every).values():
        usual = [median(f.value for _, f in group) for group in own.values()]
        if len(usual) >= _SHARED and max(usual) <= _INDIFFERENT * min(usual):
            every_value = [figure.value for group in own.values() for _, figure in group]
            least, most = min(every_value), max(every_value)
            for group in own.values():
                for at, figure in group:
                    yield (
                        at,
                        (
                            f"{least:g} to {most:g} {figure.unit} whatever m and"
                            " ef_construction are: the index was not waited for"
                        ),
                    )
