"""Wrong input of every kind ends with exit code 2 and one message that names it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from small_suite import SUITE, Inside

from vectrial.cli import main as command
from vectrial.results.database import DATABASE
from vectrial.results.writer import RunWriter
from vectrial.run import measuring, prepare
from vectrial.run.runner import Outcome

Call = Callable[..., str]
DATASET = 'name = "clustered-16-2k"\n'


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command, expect exit code 2, and return its one message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["vectrial", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        told = capsys.readouterr()
        assert ended.value.code == 2, told
        assert told.out == ""
        (message,) = (line for line in told.err.splitlines() if line.startswith("vectrial: "))
        assert told.err.endswith(f"{message}\n"), "the last word, and one line"
        return message

    return call


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("k = 10", "k = 3000", "'clustered-16-2k' has 2,000 rows, fewer than k = 3,000"),
        ("ef_search = 32", "ef_search = -1", "ef_search' = -1: Input should be greater"),
        ("ef_search = 32", 'ef_search = "a"', "ef_search' = 'a': Input should be a valid integer"),
        ("ef_search = [16, 64]", "ef_search = [16, 0]", "ef_search' = 0: Input should be greater"),
        ("[0.5, 1.0]", "[0.5, 2.0]", "a fraction is at most 1, a number of rows is whole"),
        ("duration_s = 0.2", "duration_s = inf", "duration_s': Input should be a finite number"),
        ("min_s = 0.1", "min_s = nan", "min_s'"),
        ("k = 10", "trial_timeout_s = inf", "trial_timeout_s': Input should be a finite number"),
        (DATASET, DATASET + "rows = 3000\n", "has 2,000 rows, 3,000 are asked for"),
        ("queries = 50", "queries = 3000", "has 1,000 queries, 3,000 are asked for"),
        (DATASET, DATASET + DATASET, "not valid TOML"),
        ('store = "memory"', 'store = "memri"', "did you mean 'memory'?"),
        ("samples = 50", "sample = 50", "did you mean 'samples'?"),
        ("samples = 50", 'samples = "many"', "'samples'"),
        ("k = 10", "k = 10\n[hosts]\nlink_mbit = 0", "'hosts.link_mbit': Input should be greater"),
        ('store = "memory"', 'store = "memory"\nnodes = 65', "less than or equal to 64"),
    ],
)
def test_a_suite_that_cannot_be_meant(
    refused: Call, suite: Path, old: str, new: str, named: str
) -> None:
    assert old in SUITE
    suite.write_text(SUITE.replace(old, new))
    message = refused("run", str(suite))
    assert named in message
    assert "Value error" not in message
    assert not Path("runs").exists()


def test_hosts_where_there_can_be_none(
    refused: Call, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "why_no_hosts", lambda: "links can be made by root alone")
    suite.write_text(SUITE + "[hosts]\n")
    message = refused("run", str(suite))
    assert "no simulated hosts can be made here: links can be made by root alone" in message
    assert "leave [hosts] out" in message


def test_places_that_cannot_be_written(refused: Call, suite: Path) -> None:
    assert "Not a directory" in refused("run", str(suite), "--out", str(suite))


def test_a_home_that_is_a_file(refused: Call, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(suite))
    assert "Not a directory" in refused("data", "fetch", "clustered-8-1k")
    assert "Not a directory" in refused("run", str(suite))


def test_what_is_not_a_run(refused: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "suite.toml").write_text(SUITE)
    database = run / DATABASE

    database.write_text("garbage")
    for arguments in (("report", str(run)), ("run", "--resume", str(run))):
        message = refused(*arguments)
        assert "damaged, or not a run" in message
        assert "under way" not in message

    database.unlink()
    duckdb.connect(str(database)).close()
    assert "nothing was measured" in refused("report", str(run))

    database.unlink()
    with RunWriter(run):
        pass
    for form in ("all", "text", "jsonl"):
        assert "nothing was measured" in refused("report", str(run), "--format", form)


def test_a_run_that_is_being_written(refused: Call, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from vectrial.results.writer import RunWriter\n"
            f"writer = RunWriter(Path({str(tmp_path / 'run')!r}))\n"
            "print('open', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    try:
        assert holder.stdout.readline() == "open\n"
        (tmp_path / "run" / "suite.toml").write_text(SUITE)
        assert "another process has it open" in refused("report", str(tmp_path / "run"))
        message = refused("run", "--resume", str(tmp_path / "run"))
        assert "another process has it open" in message
    finally:
        holder.stdin.close()
        holder.wait(timeout=30)
        holder.stdout.close()


def test_latest_is_the_run_that_was_interrupted(
    inside: Inside, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> Outcome:
        raise KeyboardInterrupt

    older = tmp_path / "runs" / "older"
    older.mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to("older", target_is_directory=True)
    monkeypatch.setattr(measuring, "run_plan", interrupted)
    assert inside("run", str(suite)).code == 130
    assert (tmp_path / "runs" / "latest").resolve() != older
    resumed = inside("run", "--resume", "runs/latest", "--dry-run")
    assert resumed.code == 0, resumed.err
