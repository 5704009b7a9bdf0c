"""The drift of forecasts, against the committed run that it was learned from: it is enough, about
the least that is, and forecasts of a store hold by what the others teach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from vectrial.analysis import growth_curves
from vectrial.analysis.growth_curves import Curve, curves
from vectrial.analysis.growths import Outlook, outlooks
from vectrial.analysis.run_data import load
from vectrial.model.lane import Lane
from vectrial.stats.growth import COVERAGE, LEAST_SIZES

BUNDLE = Path(__file__).parents[2] / "docs" / "results" / "growth" / "run.vectrial.tar.gz"
#: Drifts to choose from.
GRID = (0, 0.02, 0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.4, 0.5)
#: Forecasts of sizes up to so many times the largest that was fitted.
AHEAD = 5
#: Quantities whose drift is that of libraries and servers alike; others have one for each.
ALIKE = ("ready_s", "qps", "latency_p99", "recall_mean")


@dataclass(frozen=True)
class Case:
    """A forecast of one size by smaller ones. contains: True if its interval contains
    the measured value, for each drift of `GRID`."""

    metric: str
    server: bool
    store: str
    contains: tuple[bool, ...]

    @property
    def kind(self) -> tuple[str, bool]:
        """The forecasts that share its drift."""
        return self.metric, self.server and self.metric not in ALIKE


@pytest.fixture(scope="module")
def measured() -> list[Curve]:
    return curves(load(BUNDLE))


def windows(found: Sequence[Curve]) -> Iterator[list[Curve]]:
    """The curves restricted to each run of neighbouring sizes that a forecast can be made of."""
    sizes = sorted({size for curve in found for size in curve.sizes})
    for first in range(len(sizes)):
        for last in range(first + LEAST_SIZES, len(sizes)):
            fitted = sizes[first:last]
            yield [c for curve in found if len((c := part(curve, fitted)).sizes) >= LEAST_SIZES]


def part(curve: Curve, sizes: Sequence[int]) -> Curve:
    kept = [i for i, size in enumerate(curve.sizes) if size in sizes]
    return replace(
        curve,
        **{
            name: tuple(getattr(curve, name)[i] for i in kept)
            for name in ("sizes", "values", "points", "trust")
        },
        medians=tuple(curve.medians[i] for i in kept) if curve.medians else (),
    )


def forecasts(found: Sequence[Curve]) -> Iterator[tuple[Outlook, float]]:
    """Forecasts by every window, beside the measured values."""
    values = {
        (c.build, c.quantity, size): v
        for c in found
        for size, v in zip(c.sizes, c.values, strict=True)
    }
    for window in windows(found):
        largest = max(curve.sizes[-1] for curve in window)
        for size in sorted({size for *_, size in values}):
            if largest < size <= AHEAD * largest:
                for one in outlooks(window, size):
                    measured = values.get((one.curve.build, one.curve.quantity, size))
                    if measured is not None:
                        yield one, measured


@pytest.fixture(scope="module")
def cases(measured: list[Curve]) -> list[Case]:
    held: dict[tuple[object, ...], list[bool]] = {}
    kinds = growth_curves._KINDS
    with pytest.MonkeyPatch.context() as patch:
        for drift in GRID:
            changed = {
                name: replace(kind, drift=drift, server_drift=drift) for name, kind in kinds.items()
            }
            patch.setattr(growth_curves, "_KINDS", changed)
            for number, (one, value) in enumerate(forecasts(measured)):
                build, quantity = one.curve.build, one.curve.quantity
                server = build.series.lane != Lane.EMBEDDED
                key = (number, quantity.metric, server, build.series.store)
                held.setdefault(key, []).append(one.forecast.contains(value))
    return [Case(metric, server, store, tuple(h)) for (_, metric, server, store), h in held.items()]


def least(cases: Sequence[Case]) -> int:
    """The place in `GRID` of the least drift with which enough of these hold: of n, (n + 1) times
    the coverage, as conformal prediction asks of so few (Vovk et al. 2005)."""
    enough = min(len(cases), math.ceil((len(cases) + 1) * COVERAGE))
    counts = [sum(case.contains[at] for case in cases) for at in range(len(GRID))]
    return next((at for at, count in enumerate(counts) if count >= enough), len(GRID) - 1)


def by_kind(cases: Sequence[Case]) -> Mapping[tuple[str, bool], list[Case]]:
    return {
        kind: [c for c in cases if c.kind == kind] for kind in dict.fromkeys(c.kind for c in cases)
    }


@pytest.mark.slow
def test_the_drift_is_about_the_least_that_does(cases: list[Case]) -> None:
    found = {kind: GRID[least(own)] for kind, own in by_kind(cases).items()}
    for (metric, server), drift in found.items():
        kind = growth_curves._KINDS[metric]
        used = kind.server_drift if server else kind.drift
        assert drift <= used <= max(0.03, 1.3 * drift), (metric, server)


@pytest.mark.slow
def test_forecasts_of_a_store_hold_by_what_the_others_teach(cases: list[Case]) -> None:
    held = []
    for case in cases:
        others = [o for o in by_kind(cases)[case.kind] if o.store != case.store]
        held.append(case.contains[least(others)])
    assert len({case.store for case in cases}) == 6
    assert len({case.metric for case in cases}) == 6
    assert sum(held) / len(held) >= COVERAGE


@pytest.mark.slow
def test_an_interval_is_narrow_enough_to_plan_with(measured: list[Curve]) -> None:
    """Of a library, by up to 5 times the rows."""
    widths: dict[str, list[float]] = {}
    for one, _ in forecasts(measured):
        if one.curve.build.series.lane == Lane.EMBEDDED:
            width = one.forecast.high / one.forecast.low
            widths.setdefault(one.curve.quantity.metric, []).append(width)
    median = {metric: sorted(found)[len(found) // 2] for metric, found in widths.items()}
    assert median["disk_bytes"] < 1.1
    assert median["rss_growth_bytes"] < 1.3
    assert median["ready_s"] < 3
    assert median["qps"] < 2.5
    assert median["latency_p99"] < 3
