"""What is made of stores that took turns: ratios, verdicts, answers, pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from turned_runs import turned

from vectrial.analysis.run_data import Point, RunData, load
from vectrial.analysis.standings import are_all_decided, standings
from vectrial.analysis.turns import (
    TurnComparison,
    compare_points,
    interpolation_weights,
    load_variance_prior,
    running_ratios,
)
from vectrial.compare.build import compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.ranking import rank, sentences
from vectrial.compare.sides import Side
from vectrial.document.render import markdown
from vectrial.report.build import build
from vectrial.report.sections.warnings import warnings
from vectrial.stats.verdict import VerdictKind

#: Loads that lie off by a per cent or two.
LOADS = (0.01, -0.01, 0.005)


def read(made: object, folder: Path) -> RunData:
    return load(made.write(folder))  # type: ignore[attr-defined]  # a `Made`


def searches(run: RunData) -> list[Point]:
    return run.select("search", "search")


def paired(run: RunData, metric: str = "qps") -> TurnComparison:
    a, b = searches(run)
    found = compare_points(run, a, b, metric)
    assert found is not None
    return found


def test_what_all_meet_in_the_same_round_cancels(tmp_path: Path) -> None:
    found = paired(read(turned({"a": 10_000, "b": 13_000}), tmp_path / "run"))
    assert found.indexes.low < 1.3 < found.indexes.high
    assert found.indexes.high / found.indexes.low < 1.03, "and not by 30 %, as paces differ"
    assert (found.loads, found.rounds) == (1, 60)
    assert found.store is None
    assert found.claim == "of these indexes"


def test_three_loads_say_something_of_the_store(tmp_path: Path) -> None:
    found = paired(read(turned({"a": 10_000, "b": 13_000}, loads=LOADS), tmp_path / "run"))
    assert found.store is not None
    assert found.store.low < 1.3 < found.store.high
    assert found.store.high / found.store.low > found.indexes.high / found.indexes.low
    assert found.claim == "of 3 loads of each"


def test_latencies_are_compared_by_batches_of_slices(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 12_500}), tmp_path / "run")
    found = paired(run, "latency_p99").indexes
    assert found.low < 0.8 < found.high
    assert compare_points(run, *searches(run), "recall_mean") is None


def test_rounds_of_other_sessions_are_no_pairs(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}, session=5), tmp_path / "run")
    assert compare_points(run, *searches(run), "qps") is None


def test_too_few_rounds_say_nothing(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}, rounds=19), tmp_path / "run")
    assert compare_points(run, *searches(run), "qps") is None


def test_what_one_thread_waited_for_a_processor_is_left_out(tmp_path: Path) -> None:
    rates = {"a": 10_000.0, "b": 13_000.0}
    for side_by_side, serial in ((1.0, True), (1.5, False)):
        made = turned(rates, waits=0.8, side_by_side=side_by_side)
        run = read(made, tmp_path / str(side_by_side))
        assert all(arm.serial is serial for arm in run.slices.values())
        found = paired(run, "qps").indexes
        assert found.low < 1.3 < found.high
        assert (found.high / found.low < 1.03) is serial
    text = markdown.render(build(load(tmp_path / "1.0", is_own_run=True)))
    assert "waited while other programs had the processors" in text
    unknown = read(turned(rates), tmp_path / "unknown")
    assert not any(arm.serial for arm in unknown.slices.values())


@pytest.mark.parametrize(("loads", "said"), [((0.0,), True), (LOADS, False)])
def test_a_run_with_few_loads_says_what_its_verdicts_are_of(
    loads: tuple[float, ...], said: bool, tmp_path: Path
) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}, loads=loads), tmp_path / "run")
    found = warnings(run)
    assert not any("no interval" in one for one in found)
    assert any("true of these indexes" in one for one in found) is said


def test_slices_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000}), tmp_path / "run")
    (arm,) = run.slices.values()
    assert len(arm.rounds) == 60
    assert np.all(np.diff(arm.rounds) == 1)
    assert arm.head_rate_ratio == pytest.approx(1.0, abs=0.05)
    assert arm.idle_cores == 0.0


def test_a_prior_takes_three_builds_and_three_loads(tmp_path: Path) -> None:
    pair = read(turned({"a": 10_000, "b": 13_000}, loads=LOADS), tmp_path / "pair")
    assert load_variance_prior(pair).df == 0
    rates = {"a": 10_000.0, "b": 13_000.0, "c": 9_000.0, "d": 8_000.0}
    four = load_variance_prior(read(turned(rates, loads=LOADS), tmp_path / "four"))
    assert four.df > 0
    assert 1e-6 < four.variance < 1e-2


def test_a_value_between_two_phases_has_their_weights() -> None:
    assert interpolation_weights(5.0, [(7, 5.0)]) == {7: 1.0}
    assert interpolation_weights(20.0, [(1, 10.0), (2, 40.0)]) == pytest.approx({1: 0.5, 2: 0.5})
    assert interpolation_weights(10.0, [(1, 10.0), (2, 10.0)]) == {1: 0.5, 2: 0.5}


# -- verdicts --------------------------------------------------------------------------------------


def test_one_load_decides_of_these_indexes(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}), tmp_path / "run")
    asked = CompareOptions(metrics_of(["qps", "p99"]))
    verdicts = compare(Side(run, "a"), Side(run, "b"), asked, 0.05).verdicts
    assert {v.cell.metric.name: v.kind for v in verdicts if v.cell.metric} == {
        "qps": VerdictKind.BETTER,
        "latency_p99": VerdictKind.BETTER,
    }
    assert all("in turns, of these indexes" in v.reason for v in verdicts)


def test_between_two_settings_each_round_is_read_off(tmp_path: Path) -> None:
    made = turned({"a": 10_000, "b": 13_000}, recalls=(0.92, 0.98))
    asked = CompareOptions(metrics_of(["qps"]), (0.95,))
    run = read(made, tmp_path / "run")
    (verdict,) = compare(Side(run, "a"), Side(run, "b"), asked, 0.05).verdicts
    assert verdict.kind is VerdictKind.BETTER
    assert verdict.effect is not None
    assert verdict.effect.low < 1.3 < verdict.effect.high


def test_a_tie_is_shown_and_a_small_difference_is_open(tmp_path: Path) -> None:
    asked = CompareOptions(metrics_of(["qps"]))
    for rate, kind in ((10_050, VerdictKind.TIE), (10_500, VerdictKind.UNDECIDED)):
        run = read(turned({"a": 10_000, "b": rate}, noise=0.05), tmp_path / str(rate))
        (verdict,) = compare(Side(run, "a"), Side(run, "b"), asked, 0.05).verdicts
        assert verdict.kind is kind, verdict.reason
    assert "more rounds would decide it of these indexes" in verdict.reason


def test_stores_are_ranked_by_their_turns(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}), tmp_path / "run")
    ranking = rank(run, 0.95)
    assert [one.name for one in ranking.stores] == ["b", "a"]
    assert any("b answers more searches than a: ×1.30" in said for said in sentences(ranking))


@pytest.mark.parametrize(
    ("rates", "loads", "says", "decided"),
    [
        ((10_000, 13_000), LOADS, "b leads a by 1.3", True),
        ((10_000, 13_000), (0.0,), "of these indexes, and from 3 loads on of the stores", False),
        ((10_000, 10_010), (0.001, -0.001, 0.0005, 0.0), "a tie of b and a", True),
        ((10_000, 10_700), (0.08, -0.08, 0.05), "open: ", False),
    ],
)
def test_who_leads_is_said(
    rates: tuple[int, int], loads: tuple[float, ...], says: str, decided: bool, tmp_path: Path
) -> None:
    run = read(turned(dict(zip("ab", rates, strict=True)), loads=loads), tmp_path / "run")
    found = standings(run, 0.05, look=1)
    assert says in found[0].sentence
    assert are_all_decided(found) is decided


# -- pages -----------------------------------------------------------------------------------------


def test_a_report_names_the_leader_with_its_factor(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000, "c": 9_000}, loads=LOADS), tmp_path / "run")
    report = build(run)
    ((_, cards),) = report.answers
    assert cards[0].answer == "b"
    assert "times that" in cards[0].bound
    assert "of 3 loads of each" in cards[0].bound
    text = markdown.render(report)
    assert "## In turns" in text
    assert "The price of turns" in text
    assert "When it was decided" in text


def test_the_running_ratio_narrows(tmp_path: Path) -> None:
    run = read(turned({"a": 10_000, "b": 13_000}, rounds=200), tmp_path / "run")
    found = running_ratios(run, *searches(run))
    assert found[0].rounds >= 40
    assert found[-1].rounds == 200
    assert found[-1].low < 1.3 < found[-1].high
    widths = [one.high / one.low for one in found]
    assert widths[-1] < widths[0]
