"""Runs of somebody else that no Vectrial wrote: each costs its own page at most, and one line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from run_contents import SOME_DATASET, RunContents
from served_pages import client_of

from vectrial.analysis.run_data import RunData, load
from vectrial.compare.build import compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.sides import Side
from vectrial.model.errors import UserError
from vectrial.model.phase import Phase
from vectrial.model.trial import TrialRow
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import SECONDS, ReadLimits
from vectrial.results.writer import TrialRecord
from vectrial_web.serve.runs import Runs

STEERS = "a\x1b[2J\x1b]0;owned\x07\x85\u202eb\ufffe\nc"
DEEP = "[" * 100_000
#: Of a run that are read in these tests; see `ReadLimits`.
MOST_ROWS = 20_000
ENDLESS = "from range(100_000_000_000) a, range(1_000_000) b"
FOLDER = Callable[[Path], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a little of everything, to be copied."""
    row = TrialRow("k" * 20, "memory", "embedded", "d", 100, 8, "l2", "search", "flat",
                   {"m": 8}, {"k": 10}, 1, 42, ["normalises"])  # fmt: skip
    phase = Phase("search", 0, 10**9, {"clients": 1, "ef_search": 16})
    phase.metrics = {"qps": 100.0, "recall_mean": 0.9, "latency_p99": 12.0, "latency_p50": 7.0}
    phase.errors = [("Timeout", 2, ["no answer"])]
    trial = TrialRecord(row, "ok", phases=[phase], notes=["a note"], duration_s=1.0)
    facts = {**SOME_DATASET, "name": "d", "rows": 100}
    run = RunContents([trial], [facts], suite='name = "sound"\n', suite_name="sound")
    folder = run.write(tmp_path_factory.mktemp("sound") / "run")
    (folder / "logs").mkdir()
    return folder


@pytest.fixture(scope="module")
def sound_run(sound: Path) -> RunData:
    """That run as it is read."""
    return load(sound)


def sql(*statements: str) -> FOLDER:
    """Change the database so; ? is a name that steers a terminal."""

    def change(folder: Path) -> None:
        with duckdb.connect(str(folder / "run.duckdb")) as db:
            for statement in statements:
                db.execute(statement, [STEERS] * statement.count("?"))

    return change


def view(table: str, of: str) -> FOLDER:
    return sql(f'drop table "{table}"', f'create view "{table}" as {of}')


def suite(content: bytes) -> FOLDER:
    return lambda folder: (folder / "suite.toml").write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "run.duckdb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


HOSTILE: dict[str, FOLDER] = {
    **{
        f"{table} is an endless view": view(table, f"select a.range as phase_id {ENDLESS}")
        for table in ("trial", "metric", "phase", "error", "gate", "run")
    },
    "a view of another file": view("error", "select * from read_text('/etc/passwd')"),
    "computed columns": sql("drop table error", "create table error (phase_id integer,"
                            " kind varchar generated always as (repeat('x', 1000000000)) virtual)"),
    "a function of its own": sql("create macro epoch(x) as (select sum(1) " + ENDLESS + ")"),
    "two rows in run": sql("insert into run select * replace ('other' as run_id) from run"),
    "no row in run": sql("delete from run"),
    "no table of trials": sql("drop table trial"),
    "no column of values": sql("alter table metric drop value"),
    "numbers as text": sql("alter table metric alter value type varchar"),
    "a newer layout": sql("update run set schema_version = 999"),
    **{
        f"{column} of {table} steers": sql(f"update {table} set {column} = ?")
        for table, column in (
            ("trial", "store"), ("trial", "experiment"), ("phase", "name"), ("metric", "name"),
        )
    },
    # What decides no section of a report, at once.
    "every other text steers": sql(
        "update trial set dataset = ?, lane = ?, index_kind = ?, reason = ?, store_version = ?",
        "update run set suite_name = ?, command = ?", "update metric set unit = ?",
        "update error set kind = ?",
    ),
    "escapes in json": sql(
        "update trial set index_params = '{\"\\u001b[2J\": \"\\u009b\\ud83d\\ude00\"}'"
    ),
    **{
        f"{value} as a metric": sql(f"update metric set value = '{value}'::double")
        for value in ("nan", "inf", "-inf", "-1e308", "1e308", "-0.5")
    },
    **{
        f"{column} is {value}": sql(f"update {table} set {column} = {value}")
        for table, column, value in (
            ("trial", "rows", "-5"), ("trial", "rows", "9223372036854775807"),
            ("run", "started_at", "'infinity'"), ("run", "started_at", "'290000-01-01'"),
        )
    },
    "no number is possible": sql(
        "update trial set dim = -1, repeat = -1, duration_s = -1e300",
        "update phase set duration_s = 'nan'", "update dataset set rows = -1, dim = 0",
        "update error set count = -1",
    ),
    **{
        f"{column} is json of another kind": sql(f"update {table} set {column} = '{value}'")
        for table, column, value in (
            ("trial", "index_params", "[1]"), ("trial", "params", "5"), ("trial", "notes", "{}"),
            ("trial", "differences", "[1, null]"), ("phase", "params", "null"),
            ("run", "environment", "[]"), ("error", "messages", '"x"'), ("trial", "server", "[]"),
            ("dataset", "facts", "1"),
        )
    },
    "nested params": sql(f"update trial set params = '{{\"a\": {'[' * 900}{']' * 900}}}'"),
    "a number of 5,000 digits": sql(f"update trial set params = '{{\"a\": {'9' * 5000}}}'"),
    "no histogram": sql("insert into histogram select phase_id, 'latency', 'x'::blob from phase"),
    "more rows than are read": sql("insert into metric select 1, 'qps', range, '1/s', true, null"
                                   f" from range({MOST_ROWS + 1})"),
    "a suite that is no text": suite(b'name = "\xff"'),
    "a suite that is nested": suite(b"a = " + DEEP.encode()),
    "a suite of escapes": suite(STEERS.encode()),
    "half of the file": cut,
    "no database": lambda folder: (folder / "run.duckdb").write_bytes(b"no database"),
    "an empty database": lambda folder: (folder / "run.duckdb").write_bytes(b""),
    "a log of something else": lambda folder: (folder / "run.duckdb.wal").write_bytes(b"x" * 999),
}  # fmt: skip


def test_there_are_forty() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_foreign_run_costs_its_page_at_most(
    kind: str, sound: Path, sound_run: RunData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadLimits, "from_environment", lambda: ReadLimits(1, MOST_ROWS))
    folder = shutil.copytree(sound, tmp_path / "runs" / "theirs")
    HOSTILE[kind](folder)
    runs = Runs(tmp_path / "runs")
    runs.read_all()
    client = client_of(runs)
    assert client.get("/").status_code == 200
    (run,) = runs.listing()
    assert "\n" not in run.why
    for path in ("", "/trials", "/trials/1", "/values?metric=qps&phases=1"):
        page = client.get(f"/runs/{run.id}{path}")
        assert page.status_code in (200, 400, 404), path
        assert "Traceback" not in page.text
        assert not set(STEERS) - set("a[2J]0;ownedbc\n") & set(page.text), path
    with suppress(UserError), foreign_value_errors(kind):
        compare(Side(sound_run), Side(load(folder)), CompareOptions(metrics_of(["qps"])), 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["metric is an endless view", "store of trial steers"])
def test_the_report_of_a_foreign_run_ends_within_two_gigabytes(
    kind: str, sound: Path, sound_run: RunData, tmp_path: Path
) -> None:
    folder = shutil.copytree(sound, tmp_path / "theirs")
    HOSTILE[kind](folder)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "vectrial.cli.main", "report", str(folder), "-f", "html"],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, SECONDS: "2"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert done.returncode == (2 if "view" in kind else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    if done.returncode:
        assert done.stderr.startswith("vectrial: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_bad_run_keeps_no_other_waiting(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECONDS, "1")
    for name in ("sound", "bad-0", "bad-1", "bad-2"):
        folder = shutil.copytree(sound, tmp_path / "runs" / name)
        if name != "sound":
            HOSTILE["a function of its own"](folder)
    runs = Runs(tmp_path / "runs")
    runs.read_all()
    states = {run.name: run.state for run in runs.listing()}
    assert states.pop("sound") == "finished"
    assert set(states.values()) == {"unreadable"}
    assert json.dumps(states)
