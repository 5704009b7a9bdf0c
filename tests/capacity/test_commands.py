"""`vectrial capacity` and `vectrial tune`, end to end on real stores and small data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_calls import call
from in_process import InProcess

from vectrial.analysis.run_data import load
from vectrial.cli.main import main
from vectrial.report.build import build
from vectrial.run import runner
from vectrial.stores import registry
from vectrial.stores.registry import availability
from vectrial.suite.model import read_suite

Vectrial = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = ("--dataset", "clustered-16-2k")
#: Short, and no p99 that a busy test machine would not keep at 100 requests/s.
QUICK = (
    *SMALL,
    "--p99",
    "60s",
    "--seconds",
    "0.4",
    "--confirm-seconds",
    "0.4",
    "--max-rate",
    "100",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, "VECTRIAL_HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture
def vectrial(tmp_path: Path, home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Vectrial:
    """Run the command, and measure, in this process and an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECTRIAL_HOME", home["VECTRIAL_HOME"])
    monkeypatch.setattr(runner, "JobRunner", InProcess)

    def run(*arguments: str, env: None = None) -> subprocess.CompletedProcess[str]:
        done = call(*arguments)
        return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)

    return run


@pytest.fixture
def process(tmp_path: Path, home: dict[str, str]) -> Vectrial:
    """Run the command as a process."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> Any:
        command = [sys.executable, "-m", "vectrial.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=env or home, check=False
        )

    return run


@pytest.fixture
def refused(
    tmp_path: Path,
    home: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """Run the command in this process, expect that it refuses what is asked, and return why."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECTRIAL_HOME", home["VECTRIAL_HOME"])

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["vectrial", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def undisturbed(
    vectrial: Vectrial, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command says when every rate held, which is tried three times: where the machine
    stands still at the end of a look, arrivals are left unsent, and the rate does not hold."""
    for _ in range(3):
        done = vectrial(*arguments, "--format", "jsonl", env=env)
        if all(one["passed"] for one in lines(done) if one["kind"] == "step"):
            break
    return done


@pytest.mark.slow
def test_a_library_within_what_was_asked_for(vectrial: Vectrial, tmp_path: Path) -> None:
    done = undisturbed(vectrial, "capacity", "hnswlib", *QUICK, "--recall", "0.99")
    assert done.returncode == 0, done.stderr
    *rates, answer = lines(done)
    assert {one["kind"] for one in rates} == {"step"}
    assert answer["kind"] == "result"
    assert answer["text"].startswith("at least 100/s"), "no greater rate was to be tried"
    assert answer["sustained_qps"] is None
    assert answer["bracket_low"] == 100
    assert answer["confirmed"] == 100, "which is an answer of a kind: the command ends with 0"
    assert answer["valid"] is False
    assert answer["limits"] == {"p99_ms": 60_000, "recall": 0.99, "error_share": 0.001}
    assert answer["recall_parameter"] == "ef_search"
    confirming = [one for one in rates if one["purpose"] == "confirm"]
    assert len(confirming) >= 3
    for one in confirming[-3:]:
        assert one["search"] == {"ef_search": answer["recall_parameter_value"]}
        assert answer["recall_parameter_value"] > 10, "of the least the recall was less"
        assert one["recall_mean"] >= 0.99
        assert one["passed"]
        assert one["count"] > 0
    *_, folder = sorted((tmp_path / "runs").glob("*-capacity-hnswlib"))
    sections = {section.name: section for section in build(load(folder)).sections}
    tables = {block.name for block in sections["capacity"].blocks}
    assert {"capacity-looks", "capacity-passes"} <= tables


@pytest.mark.slow
def test_a_limit_that_one_caller_does_not_keep_and_a_recall_that_is_not_reached(
    vectrial: Vectrial,
) -> None:
    none = vectrial("capacity", "memory", *SMALL, "--p99", "0.001us")
    assert none.returncode == 1, "there is no answer"
    assert "one client alone waits" in none.stdout
    assert "INVALID: one client alone waits" in none.stderr
    low = ("--search", "ef_search=10", "--recall", "1", "--format", "jsonl")
    done = vectrial("capacity", "hnswlib", *SMALL, "--param", "m=4", *low)
    assert done.returncode == 1, done.stderr
    (answer,) = lines(done)
    assert "recall 1 is not reached" in answer["text"]
    assert answer["confirmed"] is answer["qps"] is answer["bracket_low"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("capacity", "nope"), "there is no store 'nope'"),
        (("capacity", "faiss", "--p99", "20"), "not a duration"),
        (("capacity", "faiss", "--index", "hsnw"), "did you mean 'hnsw'"),
        (("capacity", "faiss", "--param", "m"), "not a parameter"),
        (("capacity", "faiss", "--search", "ef=3", *SMALL), "search parameter 'ef'"),
        (("capacity", "faiss", "--lane", "native", *SMALL), "has no lane 'native'"),
        (("capacity", "faiss", "--dataset", "nope"), "there is no dataset named 'nope'"),
        (("capacity", "faiss", "--errors", "0.5"), "--errors"),
        (("tune", "faiss", "--memory", "2"), "not a size with its unit"),
        (("tune", "faiss", "--resume", "nowhere"), "no run here"),
        (("tune", "faiss", "--lane", "sdk", *SMALL), "has no lane 'sdk'"),
        (("tune", "faiss", "--recall", "nan"), "--recall"),
        (("tune", "faiss", "--resume", "nowhere", "--out", "else"), "goes on in its own folder"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_measured(
    refused: Callable[..., str], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refused(*arguments)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_builds_are_tried_and_the_suite_of_the_choice_is_one(
    vectrial: Vectrial, tmp_path: Path
) -> None:
    asked = ("tune", "hnswlib", *SMALL, "--budget", "2", "--seconds", "0.1", "--recall", "0.9")
    done = vectrial(*asked, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    told = lines(done)
    builds = [one for one in told if one["kind"] == "build"]
    (choice,) = [one for one in told if one["kind"] == "choice"]
    assert [one["build"] for one in builds] == [1, 2]
    assert builds[0]["params"] == {"m": 16, "ef_construction": 200}
    finals = [one for one in told if one["kind"] == "final"]
    assert finals
    assert {one["build"] for one in finals} <= {1, 2}
    keys = ("qps", "recall_mean", "search", "params")
    assert [choice[key] for key in keys] == [finals[0][key] for key in keys]
    assert finals[0]["verdict"] is None
    assert all(one["of_fastest"] for one in finals[1:])
    last = read_suite(Path(choice["finals"]) / "suite.toml")
    assert (last.order, last.repeats) == ("turns", 3)
    assert choice["recall_mean"] >= 0.9
    suite = read_suite(Path(choice["suite"]))
    assert choice["suite_toml"] == Path(choice["suite"]).read_text()
    assert suite.stores[0].params == choice["params"]
    kept = read_suite(Path(choice["folder"]) / "suite.toml")
    assert [ref.params for ref in kept.stores] == [one["params"] for one in builds]
    assert [ref.rows for ref in kept.datasets] == [2000]
    nothing = vectrial("run", "--resume", choice["folder"], "--no-report")
    assert nothing.returncode == 0, nothing.stderr
    assert " QPS, recall" not in nothing.stderr, "no trial was measured"
    dry = vectrial("run", choice["suite"], "--dry-run")
    assert dry.returncode == 0, dry.stderr
    again = vectrial(*asked, "--resume", choice["folder"], "--format", "jsonl")
    assert lines(again) == told, "what was measured is not measured again"
    for other in (("--dataset", "clustered-16-4k"), ("--seconds", "0.2")):
        refused = vectrial(*asked, *other, "--resume", choice["folder"])
        assert refused.returncode == 2, refused.stderr
        assert "not made by this command with these options" in refused.stderr
    tight = vectrial(*asked, "--p99", "0.001us", "--resume", choice["folder"])
    assert tight.returncode == 1
    assert "nothing is within the limits; the nearest has p99" in tight.stdout


@pytest.mark.slow
def test_a_store_that_cannot_be_had_is_tried_once(
    process: Vectrial, home: dict[str, str], tmp_path: Path
) -> None:
    """Here one that has neither a program nor a container engine."""
    without = {name: value for name, value in home.items() if name != "VECTRIAL_QDRANT_BIN"}
    without["PATH"] = str(tmp_path)
    done = process("tune", "qdrant", *SMALL, env=without)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "vectrial: qdrant cannot be measured here: " in done.stderr.splitlines()[-1]
    assert done.stderr.count(": skipped: ") == 1
    assert "build 1" not in done.stderr


@pytest.mark.slow
@pytest.mark.server("weaviate")
def test_a_server_through_the_engine(process: Vectrial) -> None:
    weaviate = registry.load("weaviate")
    if (able := availability(weaviate)).works is False:
        pytest.skip(able.reason)
    environment = dict(os.environ)  # the server's program is in the home that the machine has
    done = undisturbed(process, "capacity", "weaviate", *QUICK, env=environment)
    assert done.returncode == 0, done.stderr
    *rates, answer = lines(done)
    assert answer["lane"] == "native"
    assert "at least 100/s" in answer["text"]
    assert all(one["errors"] == 0 for one in rates)
