"""Stores under limits for real: a library by a suite, a server by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_calls import call
from small_suite import EASY

from vectrial.analysis.fit import LimitsOutcome, fits
from vectrial.analysis.run_data import load
from vectrial.cli.fit import without_folders
from vectrial.questions import fit as fit_question
from vectrial.questions import least_limits
from vectrial.report.build import build
from vectrial.suite.model import read_suite

SMALL = ("--dataset", "clustered-16-2k")
#: Limits that a busy machine keeps, and as few steps as there can be.
QUICK = (
    "--p99", "60s", "--load-factor", "1000", "--rate", "50", "--seconds", "0.3", "--warmup", "0.1",
    "--confirm-seconds", "0.3", "--confirmations", "1", "--resolution", "1",
    "--search", "ef_search=64",
)  # fmt: skip
SUITE = """
name = "limited"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 20
[[stores]]
store = "hnswlib"
index = "hnsw"
[[experiments]]
experiment = "fit"
memory = ["2GiB", "48MiB"]
processors = 0.5
p99_ms = 60000
clients = 1
duration_s = 0.3
warmup_s = 0.1
"""


@pytest.mark.slow
@pytest.mark.usefixtures("possible")
def test_a_library_in_a_process_with_limits(home: Path) -> None:
    (home / "limited.toml").write_text(SUITE + EASY)
    done = call("run", "limited.toml", "--no-report")
    assert done.code == 0, done.err
    run = load(Path(done.out.strip()))
    (fit,) = fits(run)
    outcomes = {step.memory_bytes: step.verdict.outcome for step in fit.steps}
    assert outcomes == {2**31: LimitsOutcome.HOLDS, 48 * 2**20: LimitsOutcome.KILLED}
    for step in fit.steps:
        server = step.trial.server
        assert server is not None
        assert server["limits"].endswith("applied by control groups")
        assert server["cpus"] == 0.5
        assert server["oom_kills"] == (0 if step.verdict.holds else 1)
        assert step.peak_bytes is not None
        assert 2**20 < step.peak_bytes <= step.memory_bytes
    held = next(step for step in fit.steps if step.verdict.holds)
    assert (held.figure("recall_mean") or 0.0) >= 0.95
    empty = held.figure("empty_rss_bytes")
    assert empty is not None
    assert empty < (held.figure("rss_bytes") or 0.0)
    client, bare = held.figure("client_bytes"), held.figure("bare_bytes")
    assert client is not None
    assert bare is not None
    assert 2**20 < bare < client < (held.figure("rss_bytes") or 0.0)
    killed = next(step for step in fit.steps if not step.verdict.holds)
    assert "while searching" in killed.verdict.why or "while loading" in killed.verdict.why
    assert "fit" in {section.name for section in build(run).sections}


@pytest.mark.slow
@pytest.mark.server("redis-search")
@pytest.mark.usefixtures("possible")
def test_the_least_machine_of_a_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_limits, "_LEAST_CPUS", 0.5)  # fewer steps
    monkeypatch.setattr(least_limits, "_LEAST_BYTES", least_limits.MIB)  # it has few rows
    words = ("fit", "redis-search", *SMALL, *QUICK, "--format", "jsonl")
    done = call(*words)
    assert done.code == 0, done.err
    *steps, result = map(json.loads, done.out.splitlines())
    assert {one["kind"] for one in steps} == {"step"}
    assert result["kind"] == "result"
    assert [one["purpose"] for one in steps[:2]] == ["whole machine", "memory"]
    assert result["memory_bytes"] < steps[0]["peak_bytes"] * 1.2
    assert result["confirmations"] == 1
    assert result["recall_mean"]["low"] >= 0.95
    below = result["below_memory"]
    assert below["memory_bytes"] < result["memory_bytes"] <= 2 * below["memory_bytes"] + 2**21
    assert below["outcome"] in ("killed", "refused", "slow")
    assert below["reason"]
    (folder,) = (home / "runs").glob("*-fit-redis-search")
    suite = read_suite(folder / "suite.toml")
    assert len(suite.experiments) == len(steps)
    # What is there is not measured again.
    again = call(*words, "--resume", folder)
    assert (again.code, again.out) == (0, done.out), again.err
    for option in (("--recall", "0.5"), ("--resolution", "0.5")):
        other = call(*words, "--resume", folder, *option)
        assert other.code == 2
        assert "not made by this command with these options" in other.err


def test_where_no_limits_can_be_set_it_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fit_question, "why_no_limits", lambda limits: "there is no control group 'cpu'"
    )
    done = call("fit", "hnswlib", *SMALL)
    assert done.code == 2
    assert "limits of memory and processors cannot be set here: there is no control" in done.err
    assert not (home / "runs").exists()


def test_the_limits_of_a_server_elsewhere_cannot_be_set(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_SEARCH_ADDRESS", "db.example:redis=6379")
    done = call("fit", "redis-search", *SMALL)
    assert done.code == 2
    assert "the server of redis-search is not started here" in done.err


def test_a_command_is_printed_without_its_folders() -> None:
    words = ["fit", "a", "--out", "there", "--k", "5", "--resume=here", "--resume", "x"]
    assert without_folders(words) == ["fit", "a", "--k", "5"]
