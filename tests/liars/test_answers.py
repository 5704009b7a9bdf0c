"""Stores that lie in what they answer under the clock: each is caught, or told at the figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import in_process
import pytest

from answers import (
    AlmostExact,
    FilterLater,
    Honest,
    Pausing,
    RoundsOff,
    ScoresLater,
    SeldomShorter,
    ShorterLater,
    ShorterUnderLoad,
    SlowAtFirst,
    StaleAnswers,
    TwiceLater,
    UnknownLater,
    WorstFirstLater,
)
from run import Run, measure

pytestmark = pytest.mark.slow  # a whole run for each store that lies

SWEEP = {"experiment": "search", "min_s": 0.3, "warmup_queries": 60}
#: Long enough for several passes over queries of which the gate knows few, also on a busy machine.
LONG = {"experiment": "search", "min_s": 2.5, "warmup_queries": 5}
MANY = {"queries": 160}
MIXED = {"experiment": "mixed", "operations": 1200, "stores": [Honest.name, StaleAnswers.name]}
FILTERED = {
    "experiment": "filtered",
    "selectivities": [0.1],
    "predicates": ["independent"],
    "payload_index": ["on"],
    "checks": 0,
    "min_s": 0.3,
    "stores": [Honest.name, FilterLater.name],
}
LOADED = {**SWEEP, "clients": [1, 4], "stores": [Honest.name, ShorterUnderLoad.name]}
FASTEST = "Fastest at recall ≥ 0.95"
#: Stores of `run` whose sweep is ranked. The first is the fastest, unless the machine stands still
#: while it is measured.
RANKED = (Honest.name, AlmostExact.name, Pausing.name, SlowAtFirst.name)
LIARS = [
    AlmostExact,
    Pausing,
    StaleAnswers,
    SlowAtFirst,
    ShorterLater,
    SeldomShorter,
    TwiceLater,
    ScoresLater,
    UnknownLater,
    WorstFirstLater,
    FilterLater,
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder: Path = tmp_path_factory.mktemp("liars")
    return measure([Honest, *LIARS], [SWEEP, MIXED, FILTERED], folder)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One that is searched by one client and by several."""
    folder: Path = tmp_path_factory.mktemp("liars")
    return measure([Honest, ShorterUnderLoad], [LOADED], folder)


@pytest.fixture(scope="module", params=["suite", "turns"])
def measure_repeats(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Run]:
    """Measures those who remember, alone or in turns of a second in all."""

    def measured(*kinds: type[Honest], **suite: Any) -> Run:
        folder: Path = tmp_path_factory.mktemp("liars")
        with mock.patch.object(in_process, "TURN_NS", 40_000_000):
            return measure(kinds, [LONG], folder, dataset=MANY, order=request.param, **suite)

    return measured


def test_an_honest_store_passes_everything(run: Run) -> None:
    assert [record.status for record in run.of(Honest)] == ["ok"] * 4
    phases = [phase for record in run.of(Honest) for phase in record.phases]
    assert [phase.reason for phase in phases if not phase.valid] == []
    assert "INVALID" not in "\n".join(run.lines(Honest))
    own = [point for point in run.data.points if point.series.store == Honest.name]
    assert [point.doubt for point in own] == [None] * len(own)
    assert run.headlines()[FASTEST] in RANKED
    swept = run.phase(Honest, "search").metrics
    assert (swept["unknown_answers"], swept["wrong_scores"]) == (0, 0)
    assert (swept["kept_answers"] or 0) >= min(500, swept["count"] or 0)
    assert (swept["warmup_recall"] or 0) >= 0.999


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (ShorterLater, "an exact index that is not exact under the clock"),
        (TwiceLater, "answers name a row twice"),
        (ScoresLater, "scores differ from the l2 computed again"),
        (UnknownLater, "name rows that were never written"),
        (WorstFirstLater, "are not best first by their own scores"),
    ],
)
def test_who_answers_otherwise_under_the_clock_is_invalid(
    kind: type[Honest], says: str, run: Run
) -> None:
    phase = run.phase(kind, "search")
    assert not phase.valid
    assert says in (phase.reason or "")
    (line,) = [one for one in run.lines(kind) if "search" in one]
    assert "INVALID" in line
    assert run.headlines()[FASTEST] in RANKED


def test_a_closed_loop_that_stands_still_says_so(run: Run) -> None:
    phase = run.phase(Pausing, "search")
    assert phase.valid
    assert (phase.metrics["stalls"] or 0) >= 1
    assert "stalled" in (phase.reason or "")
    assert "open loop" in (phase.reason or "")


def test_recall_that_falls_under_load_is_that_of_the_figure(loaded: Run) -> None:
    """An exact index that is not exact makes no valid figure; alone it is."""
    phases = {
        phase.params["clients"]: phase
        for record in loaded.of(ShorterUnderLoad)
        for phase in record.phases
    }
    assert phases[1].valid
    assert phases[1].metrics["recall_mean"] == 1.0
    assert not phases[4].valid
    assert (phases[4].metrics["recall_mean"] or 1.0) < 1.0
    assert all(record.status == "ok" for record in loaded.of(Honest))


def test_an_exact_index_that_misses_a_neighbour_in_thousands_says_so(run: Run) -> None:
    phase = run.phase(AlmostExact, "search")
    assert phase.valid
    assert 0.999 < (phase.metrics["recall_mean"] or 0) < 1
    assert "an exact index that missed 0.0" in (phase.reason or "")


def test_short_answers_are_told_at_the_figure(run: Run) -> None:
    phase = run.phase(SeldomShorter, "search")
    assert "answers have fewer rows than there are" in (phase.reason or "")


def test_a_filter_that_is_ignored_now_and_then_is_found_in_the_timed_answers(run: Run) -> None:
    told = [phase for record in run.of(FilterLater, "filtered") for phase in record.phases]
    wrong = [phase for phase in told if phase.params.get("predicate") == "independent"]
    assert [phase.valid for phase in wrong] == [False]
    assert "answers looked at have rows that their filter" in (wrong[0].reason or "")


def test_who_answered_with_dead_rows_anywhere_is_in_no_headline(run: Run) -> None:
    """Its searches alone are sound, and faster than all others."""
    assert not run.phase(StaleAnswers, "mixed", "search").valid
    assert run.headlines()[FASTEST] in RANKED
    unranked = "stale-answers has measurements that are not ranked"
    assert any(unranked in said for said in run.report.warnings)


def test_a_trial_of_which_one_phase_is_invalid_says_so_on_its_line(run: Run) -> None:
    assert run.trial(StaleAnswers, "mixed").status == "ok"
    (line,) = [one for one in run.lines(StaleAnswers) if "mixed" in one]
    assert "INVALID (1 of 4 phases): search:" in line
    assert "answers name rows that were not there" in line


def test_nothing_is_gained_by_remembering_where_no_query_comes_twice(run: Run) -> None:
    told = run.phase(SlowAtFirst, "search").metrics
    assert (told["latency_p50"] or 0) > 2000
    assert told["recall_mean"] == 1.0


def test_who_remembers_what_is_almost_the_same_is_told(measure_repeats: Callable[..., Run]) -> None:
    run = measure_repeats(Honest, RoundsOff)
    told = run.phase(RoundsOff, "search").metrics
    assert (told["later_pass_p50"] or 0) < 1000, "they were remembered"
    assert run.headlines()[FASTEST] == "honest"
    assert any("answers seem to be cached" in said for said in run.report.warnings)


def test_who_remembers_what_an_earlier_phase_asked_is_told(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Its second phase has first answers as fast as later ones."""
    folder = tmp_path_factory.mktemp("liars")
    suite = [LONG, {**LONG, "clients": [2]}]
    run = measure([Honest, RoundsOff], suite, folder, dataset=MANY, order="suite")
    (told,) = [
        p for p in run.data.points if p.series.store == RoundsOff.name and p.params["clients"] == 2
    ]
    assert (told.value("first_pass_p50") or 0) < 1000, "they were remembered"
    assert (told.value("unfamiliar_p50") or 0) > 2000 > (told.value("familiar_p50") or 0)
    assert "right after the phase a new query took" in (told.doubt or "")
    honest = [point for point in run.data.points if point.series.store == Honest.name]
    assert [point.doubt for point in honest] == [None] * len(honest)


def test_who_remembers_answers_is_told_where_queries_repeat(
    measure_repeats: Callable[..., Run],
) -> None:
    repeated = measure_repeats(Honest, SlowAtFirst, repeat_queries=True)
    told = repeated.phase(SlowAtFirst, "search").metrics
    assert told["first_pass_count"] == 160
    assert (told["first_pass_p50"] or 0) > 2000 > 2 * (told["later_pass_p50"] or 0)
    assert repeated.headlines()[FASTEST] == "honest"
    assert any("answers seem to be cached" in said for said in repeated.report.warnings)
    (point,) = [p for p in repeated.data.points if p.series.store == Honest.name]
    assert point.doubt is None
