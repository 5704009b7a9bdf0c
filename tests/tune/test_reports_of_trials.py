"""What `vectrial tune` prints of what was tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vectrial.cli import tune
from vectrial.tune.search import Build, Candidate, Limits, Tried

BUILD = Build("hnsw", {"m": 8})
GOOD = Candidate(BUILD, {"ef_search": 40}, 0.97, 1000.0, 900.0, 2**20)
FAILED = Tried(1, BUILD, "failed", -2, None, "cannot open [/data/idx]: [limit 1] is :warning:")
SUITE = 'name = "tuned"\n'
KEYS = {
    "kind", "index", "params", "search", "recall_mean", "qps", "latency_p99", "rss_growth_bytes",
}  # fmt: skip


def test_what_a_store_said_stands_as_it_said_it(capsys: pytest.CaptureFixture[str]) -> None:
    best, reason = tune._choice([], Limits(0.9))
    tune._tables([FAILED], [], best, reason, Limits(0.9), Path("runs/one"), "")
    said = capsys.readouterr().out
    assert "cannot open [/data/idx]: [limit 1] is :warning:" in said
    assert "no choice: no build could be measured whole" in said
    assert "is the nearest to the limits" not in said


def test_where_nothing_is_within_the_limits_the_nearest_is_told_with_a_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = Limits(0.9, memory_bytes=1.0)
    best, reason = tune._choice([GOOD], limits)
    assert best is None
    tried = Tried(1, BUILD, "complete", -0.5, None, "memory 1 MiB", [GOOD])
    tune._tables([tried], [GOOD], best, reason, limits, Path("runs/one"), "")
    said = capsys.readouterr().out
    assert "no choice: nothing is within the limits; the nearest has memory 1 MiB: relax" in said


@pytest.mark.parametrize("able", [True, False])
def test_objects_have_all_their_keys(capsys: pytest.CaptureFixture[str], able: bool) -> None:
    tried = Tried(1, BUILD, "complete", 1000.0, GOOD, "", [GOOD]) if able else FAILED
    every = [GOOD] if able else []
    best, reason = tune._choice(every, Limits(0.9))
    suite = SUITE if able else ""
    tune._lines([tried], every, best, reason, Limits(0.9), Path("runs/one"), suite)
    told = {one["kind"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert told["build"].keys() == KEYS | {"build", "state", "reason"}
    assert (told["build"]["index"], told["build"]["params"]) == ("hnsw", {"m": 8})
    assert told["choice"].keys() == KEYS | {
        "recall_floor",
        "folder",
        "reason",
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
    tried = Tried(1, BUILD, "complete", 1000.0, GOOD, "", [GOOD])
    tune._tables([tried], [GOOD], GOOD, "", Limits(0.9), Path("runs/one"), SUITE)
    said = capsys.readouterr().out
    assert said.endswith(
        f"vectrial run runs/one/chosen.toml\nwhich is this suite:\n\n{SUITE}\nruns/one\n"
    )
