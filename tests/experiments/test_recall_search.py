"""The least value of a search parameter that gives a recall."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.experiments.common.recall_search import RecallParameter, find_recall
from vectrial.model.phase import Phase

GRID = (10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453, 512)


def found(
    parameter: RecallParameter, recall_at: Callable[[int], float], wanted: float
) -> tuple[Phase, list[int]]:
    """The phase that was found, and the values that were tried on the way."""
    tried: list[int] = []

    def measure() -> Phase:
        tried.append(parameter.value)
        return Phase("recall", 0, 1, metrics={"recall_mean": recall_at(parameter.value)})

    search = find_recall(parameter, measure, wanted)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value, tried


@given(st.integers(10, 512))
def test_the_least_value_is_found_to_three_per_cent(needed: int) -> None:
    parameter = RecallParameter("ef_search", GRID)
    phase, tried = found(parameter, lambda ef: 0.95 if ef >= needed else 0.94, 0.95)
    assert needed <= parameter.value <= max(needed, needed * 1.03, 10)
    assert phase.metrics["recall_mean"] == 0.95
    assert len(tried) == len(set(tried)) <= 9


def test_no_value_reaches_it() -> None:
    parameter = RecallParameter("ef_search", GRID)
    phase, _ = found(parameter, lambda _: 0.9, 0.95)
    assert parameter.value == 512
    assert phase.metrics["recall_mean"] == 0.9
    assert not parameter.raise_value()


@pytest.mark.parametrize("name", [None, "ef_search"])
def test_a_parameter_that_is_not_turned_is_searched_as_it_is(name: str | None) -> None:
    parameter = RecallParameter(name, ())
    _, tried = found(parameter, lambda _: 0.5, 0.95)
    assert len(tried) == 1
    assert parameter.setting == parameter.metric == parameter.name_entry == {}
    assert not parameter.raise_value()


def test_it_is_raised_a_little_at_a_time_and_never_beyond() -> None:
    parameter = RecallParameter("ef_search", (10, 100))
    seen = []
    while parameter.raise_value():
        seen.append(parameter.value)
    assert seen[:3] == [11, 12, 13]
    assert seen[-1] == 100
    assert all(b <= max(a + 1, 1.03 * a) for a, b in itertools.pairwise(seen))
