"""The drift of forecasts, against the committed run that it was learned from: it is the least that
does, and forecasts of a store hold when the drift is learned from the others alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from vectrial.analysis.growths import Quantity, curves
from vectrial.analysis.run_data import load
from vectrial.stats.growth import COVERAGE, growth

BUNDLE = Path(__file__).parents[2] / "docs" / "results" / "growth" / "run.vectrial.tar.gz"
#: Drifts to choose from.
GRID = (0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25, 0.3, 0.4)
MILLION = 1_000_000


@dataclass(frozen=True)
class Case:
    """A forecast of the million by a number of smaller sizes. contains: True if its interval
    contains the measured value, for each drift of `GRID`."""

    metric: str
    store: str
    fitted: int
    contains: tuple[bool, ...]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = []
    for curve in curves(load(BUNDLE)):
        if curve.sizes[-1] != MILLION:
            continue
        inverse, laws = curve.quantity.is_inverse, curve.quantity.laws
        values = [1 / value if inverse else value for value in curve.values]
        for fitted in range(4, len(values)):
            part = curve.sizes[:fitted], values[:fitted]
            holds = tuple(
                growth(*part, laws, d).forecast(MILLION).contains(values[-1]) for d in GRID
            )
            store = curve.build.series.store
            found.append(Case(curve.quantity.metric, store, fitted, holds))
    return found


def least(cases: Sequence[Case]) -> int:
    """The place in `GRID` of the least drift with which enough of these hold: of n, (n + 1) times
    the coverage, as conformal prediction asks of so few (Vovk et al. 2005)."""
    enough = min(len(cases), math.ceil((len(cases) + 1) * COVERAGE))
    counts = [sum(case.contains[at] for case in cases) for at in range(len(GRID))]
    return next((at for at, count in enumerate(counts) if count >= enough), len(GRID) - 1)


@pytest.mark.slow
def test_the_drift_is_the_least_that_does(cases: list[Case]) -> None:
    for metric in dict.fromkeys(case.metric for case in cases):
        own = [case for case in cases if case.metric == metric]
        assert Quantity(metric).drift == GRID[least(own)], metric


@pytest.mark.slow
def test_forecasts_of_a_store_hold_by_what_the_others_teach(cases: list[Case]) -> None:
    held = []
    for case in cases:
        others = [o for o in cases if o.metric == case.metric and o.store != case.store]
        held.append(case.contains[least(others)])
    assert len({case.store for case in cases}) == 6
    assert len({case.metric for case in cases}) == 5
    assert sum(held) / len(held) >= COVERAGE
