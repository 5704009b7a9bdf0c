"""The order of the stores of one run, and which of them are told apart."""

from __future__ import annotations

import pytest
from compared_runs import ALONE, NOISE, Made

from vectrial.compare.ranking import Ranking, rank, sentences
from vectrial.stats.verdict import VerdictKind


def ranked(made: Made, recall: float = 0.95, clients: int = 1) -> Ranking:
    return rank(made.data(), recall, clients)


def exact(made: Made, store: str, qps: float) -> Made:
    for repeat, factor in enumerate(NOISE, 1):
        metrics = {"qps": qps * factor, "recall_mean": 1.0, "latency_p99": 900.0}
        made.trial(store, repeat=repeat, metrics=metrics, kind="flat", index={}, phase_params=ALONE)
    return made


def test_stores_are_ranked_at_exactly_the_recall_and_told_apart() -> None:
    made = Made().sweep("slow", speed=0.5).sweep("fast", speed=2.0).sweep("like", speed=1.99)
    found = ranked(made)
    assert {one.name for one in found.stores[:2]} == {"fast", "like"}
    assert found.stores[2].name == "slow"
    assert found.verdicts[0, 1].kind is VerdictKind.TIE
    assert found.verdicts[0, 2].kind is found.verdicts[1, 2].kind is VerdictKind.BETTER
    tie, second, first = sentences(found)
    assert "tie: they differ by less than 5%" in tie
    for line in (first, second):
        assert "answers more searches than slow: ×" in line
        ratio = float(line.partition("×")[2].split()[0])
        assert ratio == pytest.approx(4, rel=0.05)


def test_an_exact_store_counts_with_its_own_figure() -> None:
    made = exact(Made().sweep("graph"), "exact", 1.0)
    found = ranked(made)
    assert [one.name for one in found.stores] == ["graph", "exact"]
    assert found.stores[1].median == 1.0
    assert found.verdicts[0, 1].kind is VerdictKind.BETTER


def test_a_store_that_does_not_reach_the_recall_is_not_ranked() -> None:
    low = {16: 0.5, 64: 0.7, 256: 0.9}
    found = ranked(Made().sweep("good").sweep("low", recalls=low))
    assert [one.name for one in found.stores] == ["good"]
    assert sentences(found) == ["There is one store alone: nothing to compare."]


def test_one_repeat_tells_nothing_apart() -> None:
    made = Made().sweep("a", noise=(1.0,)).sweep("b", speed=9.0, noise=(1.0,))
    found = ranked(made)
    assert [one.name for one in found.stores] == ["b", "a"]
    (line,) = sentences(found)
    assert line == "Nothing is decided: 1 repeat, and a verdict needs 3."
    assert sentences(Ranking(0.95, found.stores[:1], {}), ["a"]) == [
        "Nothing is decided: a verdict needs 3 repeats of two stores."
    ]


def test_a_store_without_all_repeats_is_named_beside_the_others() -> None:
    found = ranked(Made().sweep("a").sweep("b", speed=3.0))
    assert sentences(found, ["c"])[-1] == "c: not judged: a verdict needs 3 repeats."


def test_loads_of_other_clients_are_not_ranked() -> None:
    assert ranked(Made().sweep("a").sweep("b"), clients=4).stores == ()
