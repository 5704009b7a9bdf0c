"""What `vectrial tune` prints of what was tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vectrial.cli import tune_view as tune
from vectrial.compare.cells import ComparedCell
from vectrial.compare.judge import Verdict
from vectrial.questions import finals as answers
from vectrial.questions.builds import Build, Candidate, TriedBuild, TuneLimits
from vectrial.stats.effects import Effect
from vectrial.stats.verdict import VerdictKind

BUILD = Build("hnsw", {"m": 8})
GOOD = Candidate(BUILD, {"ef_search": 40}, 0.97, 1000.0, 900.0, 2**20)
FAILED = TriedBuild(1, BUILD, "failed", -2, None, "cannot open [/data/idx]: [limit 1] is :warning:")
SUITE = 'name = "tuned"\n'
KEYS = {
    "kind", "index", "params", "search", "recall_mean", "qps", "latency_p99", "rss_growth_bytes",
}  # fmt: skip


def result(
    tried: TriedBuild, every: list[Candidate], limits: TuneLimits, suite: str = ""
) -> answers.TuneAnswer:
    found = answers.answer_of([replace(tried, candidates=every)], limits, Path("runs/one"))
    return replace(found, suite=suite)


def test_what_a_store_said_stands_as_it_said_it(capsys: pytest.CaptureFixture[str]) -> None:
    tune.print_tables(result(FAILED, [], TuneLimits(0.9)))
    said = capsys.readouterr().out
    assert "cannot open [/data/idx]: [limit 1] is :warning:" in said
    assert "no choice: no build could be measured whole" in said
    assert "is the nearest to the limits" not in said


def test_where_nothing_is_within_the_limits_the_nearest_is_told_with_a_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = TriedBuild(1, BUILD, "complete", -0.5, None, "memory 1 MiB", [GOOD])
    found = result(tried, [GOOD], TuneLimits(0.9, memory_bytes=1.0))
    assert found.best is None
    tune.print_tables(found)
    said = capsys.readouterr().out
    assert "no choice: nothing is within the limits; the nearest has memory 1 MiB: relax" in said


@pytest.mark.parametrize("able", [True, False])
def test_objects_have_all_their_keys(able: bool) -> None:
    tried = TriedBuild(1, BUILD, "complete", 1000.0, GOOD, "", [GOOD]) if able else FAILED
    found = result(tried, [GOOD] if able else [], TuneLimits(0.9), SUITE if able else "")
    told = {one["kind"]: one for one in tune.objects(found)}
    assert told["build"].keys() == KEYS | {"build", "state", "reason"}
    assert (told["build"]["index"], told["build"]["params"]) == ("hnsw", {"m": 8})
    assert told["choice"].keys() == KEYS | {
        "recall_floor",
        "folder",
        "reason",
        "finals",
        "suite",
        "suite_toml",
    }
    assert (told["choice"]["qps"], told["build"]["qps"]) == ((1000.0,) * 2 if able else (None,) * 2)
    assert (told["choice"]["suite"] is None) == bool(told["choice"]["reason"]) == (not able)
    assert told["choice"]["suite"] == ("runs/one/chosen.toml" if able else None)
    assert told["choice"]["suite_toml"] == (SUITE if able else None)


def test_the_suite_that_measures_the_choice_anew_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = TriedBuild(1, BUILD, "complete", 1000.0, GOOD, "", [GOOD])
    tune.print_tables(result(tried, [GOOD], TuneLimits(0.9), SUITE))
    said = capsys.readouterr().out
    assert said.endswith(
        f"vectrial run runs/one/chosen.toml\nwhich is this suite:\n\n{SUITE}\nruns/one\n"
    )


def test_the_fastest_of_the_last_candidates_is_the_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = TriedBuild(1, BUILD, "complete", 1000.0, GOOD, "", [GOOD])
    other = replace(tried, number=2, build=Build("hnsw", {"m": 24}))
    fine = replace(GOOD, search={"ef_search": 33}, recall=0.951, qps=1200.0)
    cell = ComparedCell("build-2 → build-1", "search", "search", {})
    behind = Verdict(cell, VerdictKind.BETTER, effect=Effect(1.25, 1.1, 1.4, 0.001, 0.05, 12))
    finals = answers.Finals(
        Path("runs/finals"),
        (answers.Finalist(tried, fine, 1210.0, None), answers.Finalist(other, GOOD, 968.0, behind)),
    )
    found = answers.answer_of([tried, other], TuneLimits(0.95), Path("runs/one"), finals)
    assert found.best == fine
    rows = [one for one in tune.objects(found) if one["kind"] == "final"]
    assert [one["build"] for one in rows] == [1, 2]
    assert rows[1]["of_fastest"] == pytest.approx(0.8)
    assert rows[1]["of_fastest_low"] == pytest.approx(1 / 1.4)
    tune.print_tables(found)
    said = capsys.readouterr().out
    assert "QPS at 0.95" in said
    assert "the fastest" in said
    assert "0.8 of the fastest (0.714 to 0.909)" in said
    assert "choice: hnsw m=8, ef_search=33: 1,200 QPS" in said
