"""The run folder: whole trials or none, replaced failures, lossless round trip."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from vectrial.model.errors import UserError
from vectrial.model.phase import Phase
from vectrial.model.results_schema import METRICS
from vectrial.model.trial import CheckResult, TrialRow
from vectrial.results.database import _open_error
from vectrial.results.folder import replace_text
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter, TrialRecord


def row(key: str = "k1") -> TrialRow:
    return TrialRow(
        key, "memory", "embedded", "d", 100, 8, "l2", "search", "flat",
        {"m": 16, "quantization": None}, {"k": 10}, 1, 42, environment_name="docarray",
    )  # fmt: skip


def record(key: str = "k1", status: str = "ok") -> TrialRecord:
    phase = Phase("search", 1_000, 2_000_001_000, params={"k": 10})
    phase.metrics = {"qps": 12.5, "recall_mean": None}
    phase.missing = {"latency_p99": "too few samples"}
    phase.histograms = {"latency": b"\x00\xff"}
    phase.errors = [("Timeout", 2, ["late", "later"])]
    phase.windows = {
        "search": {
            "second": [0], "count": [300], "errors": [2], "p50_us": [1.5], "p99_us": [2.0],
            "max_us": [3.0], "recall": [None],
        }
    }  # fmt: skip
    telemetry = [{"phase": 0, "at_s": 0.5, "process": "client", "cpu_s": 0.1, "rss_bytes": 5}]
    return TrialRecord(
        row(key),
        status,
        phases=[phase],
        gate=[CheckResult("row_count", True, "100", "all", "everything", True)],
        telemetry=telemetry,
    )


def begin(writer: RunWriter, **environment: Any) -> None:
    writer.begin(suite_name="s", command="c", version="0", environment=environment)


def test_everything_of_a_trial_comes_back(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r") as writer:
        begin(writer, cpu="x")
        writer.trial(record())
        writer.finish()
    with RunReader(tmp_path / "r") as reader:
        values = {m["metric"]: m for m in reader.measured()}
        assert values["qps"]["value"] == 12.5
        assert values["qps"]["unit"] == METRICS["qps"].unit
        assert values["qps"]["valid"]
        assert values["recall_mean"]["value"] is None
        assert values["recall_mean"]["reason"] == "nothing was recorded"
        assert not values["recall_mean"]["valid"]
        assert values["latency_p99"]["reason"] == "too few samples"
        assert reader.rows("select * from phase")[0]["duration_s"] == 2.0
        assert reader.rows("select hdr from histogram") == [{"hdr": b"\x00\xff"}]
        assert reader.rows('select * from "window"')[0]["p50_us"] == 1.5
        assert reader.rows("select kind, count from error") == [{"kind": "Timeout", "count": 2}]
        assert reader.rows("select phase_id is not null as joined from telemetry")[0]["joined"]
        assert reader.run()["environment"] == {"cpu": "x"}
        (trial,) = reader.rows("select * from trial")
        assert trial["index_kind"] == "flat"
        assert json.loads(trial["index_params"]) == {"m": 16, "quantization": None}
        assert reader.rows("select environment_name as e from trial") == [{"e": "docarray"}]


def test_any_value_comes_back_as_it_was(tmp_path: Path) -> None:
    texts = ["it's", "'; drop table trial; --", "a\0b\0", "\\n \n\t", "né ☃ 𝄞", "", "''", "?"]
    numbers = [0.1, 0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 123456789.123456789]
    named = dict(zip(METRICS, numbers, strict=False))
    began = datetime(2026, 11, 27, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=-5)))
    with RunWriter(tmp_path / "r") as writer:
        begin(writer, cpu="it's")
        phase = Phase("search", 0, 1, params={"text": texts[0]})
        phase.metrics = {**named, "qps": float("nan"), "count": np.float64(7), "errors": 2**62}
        phase.histograms = {text: bytes(range(256)) for text in texts}
        phase.errors = [(text, np.int64(1), [text]) for text in texts]
        writer.trial(replace(record(), phases=[phase], started_at=began, reason=texts[2]))
        writer.trial(replace(record("it's"), reason=texts[1]))
        writer.trial(replace(record("it's"), status="failed"))
    with duckdb.connect(str(tmp_path / "r" / "run.duckdb"), read_only=True) as db:
        found = dict(db.execute("select name, value from metric where phase_id = 1").fetchall())
        assert {
            name: repr(found[name]) for name in named if name not in ("count", "errors", "qps")
        } == {
            name: repr(value)
            for name, value in named.items()
            if name not in ("count", "errors", "qps")
        }
        assert (found["count"], found["errors"], repr(found["qps"])) == (7.0, 2.0**62, "nan")
        blobs = dict(db.execute("select name, hdr from histogram where phase_id = 1").fetchall())
        assert blobs == {text: bytes(range(256)) for text in texts}
        errors = db.execute("select kind, messages from error where phase_id = 1").fetchall()
        assert {kind: json.loads(said) for kind, said in errors} == {text: [text] for text in texts}
        trials = "select key, reason, started_at at time zone 'UTC' from trial order by trial_id"
        assert db.execute(trials).fetchall() == [
            ("k1", texts[2], began.astimezone(UTC).replace(tzinfo=None)), ("it's", None, None),
        ]  # fmt: skip


def test_a_trial_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    bad = record("k2")
    bad.phases[0].metrics["not_a_metric"] = 1.0
    with RunWriter(tmp_path / "r") as writer:
        writer.trial(record("k1"))
        with pytest.raises(KeyError, match="not_a_metric"):
            writer.trial(bad)
        assert writer.finished_keys() == {"k1"}
    with RunReader(tmp_path / "r") as reader:
        assert reader.rows("select count(*) as n from trial")[0]["n"] == 1
        assert reader.rows("select count(*) as n from phase")[0]["n"] == 1


def test_failed_and_skipped_trials_are_tried_again_and_replaced(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r") as writer:
        writer.trial(record("k1", "failed"))
        writer.trial(record("k2", "skipped"))
        assert writer.finished_keys() == set()
        writer.trial(record("k1", "ok"))
        assert writer.finished_keys() == {"k1"}
    with RunReader(tmp_path / "r") as reader:
        assert {r["key"]: r["status"] for r in reader.rows("select key, status from trial")} == {
            "k1": "ok",
            "k2": "skipped",
        }
        assert reader.rows("select count(*) as n from metric")[0]["n"] == 6


#: Writes trials until the system lets no file grow any more, and says what had been committed.
_UNTIL_FULL = """
import os, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_writer import begin, record
from vectrial.results.database import RunNotWritten
from vectrial.results.writer import RunWriter
with RunWriter(Path(sys.argv[1])) as writer:
    begin(writer)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, resource.RLIM_INFINITY))
    try:
        for number in range(100):
            one = record(f"k{number}")
            one.phases[0].histograms = {"latency": os.urandom(1 << 20)}
            writer.trial(one)
            print(f"k{number}", flush=True)
    except RunNotWritten as error:
        print(error, file=sys.stderr)
"""


@pytest.mark.slow
def test_what_was_committed_is_there_when_the_disk_is_full(tmp_path: Path) -> None:
    """A real refusal of the system, which leaves a log that was written in part."""
    folder = tmp_path / "r"
    done = subprocess.run(
        [sys.executable, "-c", _UNTIL_FULL, str(folder), str(Path(__file__).parent)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    written = done.stdout.split()
    assert 0 < len(written) < 100
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"{folder}: the run cannot be written: ")
    assert said.endswith("(what had been measured is kept; make room, and go on with it)")
    with RunWriter(folder) as writer:
        assert writer.finished_keys() == set(written)
        writer.trial(record("later"))
        writer.finish()
    with RunReader(folder) as reader:
        assert reader.rows("select count(*) as n from histogram") == [{"n": len(written) + 1}]


def test_a_run_that_could_not_begin_is_removed_and_no_other(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "new" / "r") as writer:
        begin(writer)
        (tmp_path / "new" / "r" / "logs").mkdir()
        writer.discard()
    assert not (tmp_path / "new").exists(), "nor is the folder that was made for it"
    with RunWriter(tmp_path / "measured") as writer:
        writer.trial(record())
        writer.discard()
    with RunWriter(tmp_path / "there"):
        pass
    with RunWriter(tmp_path / "there") as writer:
        writer.discard()
    assert {path.name for path in tmp_path.iterdir()} == {"measured", "there"}
    with RunReader(tmp_path / "measured") as reader:
        assert reader.table("trial").num_rows == 1


def test_a_dataset_is_kept_once_for_each_number_of_rows(tmp_path: Path) -> None:
    def facts(rows: int, fingerprint: str) -> dict[str, Any]:
        return {
            "name": "d", "fingerprint": fingerprint, "rows": rows, "dim": 8, "queries": 5,
            "metric_space": "l2", "raw_bytes": rows * 32, "metadata_bytes": 0, "source": "s",
            "licence": "l", "stand_in_for": None, "facts": "{}",
        }  # fmt: skip

    with RunWriter(tmp_path / "r") as writer:
        for rows, fingerprint in ((100, "a"), (50, "b"), (100, "a")):
            writer.dataset(facts(rows, fingerprint))
        with pytest.raises(UserError, match="'d' is not what it was when this run began"):
            writer.dataset(facts(100, "c"))
    with RunReader(tmp_path / "r") as reader:
        kept = reader.rows("select rows, raw_bytes, fingerprint from dataset order by rows")
    assert [tuple(row.values()) for row in kept] == [(50, 1600, "b"), (100, 3200, "a")]


def test_no_run_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run here"):
        RunReader(tmp_path)


@pytest.mark.parametrize(("step", "remedy"), [(1, "update vectrial"), (-1, "measure again")])
def test_a_run_of_another_layout_is_neither_read_nor_added_to(
    tmp_path: Path, step: int, remedy: str
) -> None:
    with RunWriter(tmp_path / "r") as writer:
        begin(writer)
        writer._db.execute(f"update run set schema_version = schema_version + {step}")
    for opened in (RunReader, RunWriter):
        with pytest.raises(UserError, match=remedy):
            opened(tmp_path / "r")


def test_a_run_that_is_resumed_by_other_code_says_so(tmp_path: Path) -> None:
    """Trap 002-1: three states of the code on one page."""

    def began(revision: str) -> None:
        with RunWriter(tmp_path / "r") as writer:
            begin(writer, git={"revision": revision})

    for revision in ("a", "a", "b", "b", "c"):
        began(revision)
    with RunReader(tmp_path / "r") as reader:
        run = reader.run()
    assert run["git_revision"] == "a"
    assert run["environment"]["resumed_at_revisions"] == ["b", "c"]


@pytest.mark.parametrize(("set_by_s", "told"), [(0, None), (-7200, -7200), (7200, 7200)])
def test_a_wall_clock_that_is_set_meanwhile_is_told_and_the_run_ends_after_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by_s: int, told: int | None
) -> None:
    monkeypatch.setattr(
        "vectrial.results.writer._now", lambda: datetime.now(UTC) + timedelta(seconds=away_s)
    )
    away_s = 0
    with RunWriter(tmp_path / "r") as writer:
        begin(writer)
        away_s = set_by_s
        writer.finish()
    with RunReader(tmp_path / "r") as reader:
        run = reader.run()
    assert run["environment"].get("clock_set_s") == told
    assert timedelta() <= run["finished_at"] - run["started_at"] < timedelta(seconds=60)


@pytest.mark.parametrize("failure", [None, FileNotFoundError("logs")])
def test_a_folder_that_is_moved_while_it_is_written_is_found_again(
    tmp_path: Path, failure: Exception | None
) -> None:
    def write_and_move() -> None:
        with RunWriter(tmp_path / "r") as writer:
            begin(writer)
            writer.trial(record())
            (tmp_path / "r").rename(tmp_path / "away")
            if failure is not None:
                raise failure

    with pytest.raises(UserError, match=r"moved.*go on with: vectrial run --resume .*/away"):
        write_and_move()
    with RunReader(tmp_path / "away") as reader:
        assert {row["trial_id"] for row in reader.measured()} == {1}


def test_a_folder_that_is_removed_while_it_is_written_is_said(tmp_path: Path) -> None:
    def write_and_remove() -> None:
        with RunWriter(tmp_path / "r") as writer:
            begin(writer)
            shutil.rmtree(tmp_path / "r")

    with pytest.raises(UserError, match="removed while it was written"):
        write_and_remove()


def test_a_run_that_is_resumed_is_not_complete_before_it_ends(tmp_path: Path) -> None:
    def finished() -> bool:
        with RunReader(tmp_path / "r") as reader:
            return reader.run()["finished_at"] is not None

    with RunWriter(tmp_path / "r") as writer:
        begin(writer)
        writer.finish()
    assert finished()
    with RunWriter(tmp_path / "r") as writer:
        begin(writer)  # and is killed
    assert not finished()
    with RunWriter(tmp_path / "r") as writer:
        begin(writer)
        writer.finish()
    assert finished()


def complete(folder: Path) -> Path:
    whole = record()
    whole.phases[0].histograms = {}  # that of the others is none a report could be made of
    with RunWriter(folder) as writer:
        begin(writer)
        writer.trial(whole)
        writer.finish()
    return folder


@pytest.mark.parametrize(
    "source", ["read_text('{0}/secret')", "read_csv('{0}/secret')", "glob('{0}/*')"]
)
def test_a_run_of_somebody_else_reads_no_other_file(tmp_path: Path, source: str) -> None:
    """What is asked for as a table may be a view of theirs."""
    (tmp_path / "secret").write_text("hidden\n")
    folder = complete(tmp_path / "r")
    with duckdb.connect(str(folder / "run.duckdb")) as db:
        db.execute("drop table error")
        db.execute(f"create view error as select * from {source.format(tmp_path)}")
    with pytest.raises(UserError, match="'error' is a view") as told:
        RunReader(folder)
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("named", ["", 'alter table metric rename to "METRIC"'])
def test_a_column_of_another_type_is_no_runs(tmp_path: Path, named: str) -> None:
    with RunWriter(tmp_path) as writer:
        begin(writer)
    with duckdb.connect(str(tmp_path / "run.duckdb")) as db:
        db.execute(f"alter table metric alter value type varchar; {named}")
    with pytest.raises(UserError, match="'value' of the table 'metric' is VARCHAR, and not DOUBLE"):
        RunReader(tmp_path)


def test_the_run_itself_may_be_such_a_view(tmp_path: Path) -> None:
    """It is asked for as the database is opened."""
    (tmp_path / "secret").write_text("3\n")
    with duckdb.connect(str(complete(tmp_path / "r") / "run.duckdb")) as db:
        db.execute("create table other as from run; drop table run")
        db.execute("create schema s; create table s.run (x int)")
        read = f"(select max(content) from read_text('{tmp_path}/secret'))"
        db.execute(
            f"create view run as select * replace ({read}::int as schema_version) from other"
        )
    with pytest.raises(UserError, match="damaged"):
        RunReader(tmp_path / "r")


def test_a_run_is_written_and_read_many_times_all_the_same(tmp_path: Path) -> None:
    folder = complete(tmp_path / "r")
    with RunReader(folder) as reader, RunReader(folder) as other:
        assert reader.table("metric").equals(other.table("metric"))
    with RunWriter(folder) as writer:
        for number in range(3):
            writer.trial(record(f"more-{number}"))
        writer.finish()
    with RunReader(folder) as reader:
        assert reader.table("trial").num_rows == 4


def test_what_is_damaged_within_is_said(tmp_path: Path) -> None:
    with duckdb.connect(str(complete(tmp_path / "r") / "run.duckdb")) as db:
        db.execute("drop table trial")
    with RunReader(tmp_path / "r") as reader, pytest.raises(UserError, match="damaged") as told:
        reader.measured()
    assert "\n" not in str(told.value), "one line"
    with RunWriter(tmp_path / "r") as writer, pytest.raises(UserError, match="damaged"):
        writer.finished_keys()


def test_what_is_no_run_leaves_no_database_open(tmp_path: Path) -> None:
    database, kept = tmp_path / "run.duckdb", []  # an error holds what it was raised beside
    for columns in ("x varchar", "schema_version varchar"):
        with duckdb.connect(str(database)) as db:  # would be refused beside a reader's
            db.execute(f"drop table if exists run; create table run ({columns})")
            db.execute("insert into run values ('new')")
        with pytest.raises(UserError, match="damaged, or not a run's") as told:
            RunReader(tmp_path)
        kept.append(told)


@pytest.mark.slow
def test_times_are_the_same_in_every_time_zone(tmp_path: Path) -> None:
    """The database would tell them in the zone of the machine, for which it asks once."""
    folder = complete(tmp_path / "r")
    (folder / "suite.toml").write_text("")
    script = """
import sys
from pathlib import Path
from vectrial.report.build import build
from vectrial.analysis.run_data import load
from vectrial.results.bundle import seal
from vectrial.results.reader import RunReader
folder = Path(sys.argv[1])
with RunReader(folder) as reader:
    print(reader.run()["started_at"].isoformat())
    print(reader.table("run").column("started_at").type)
print(seal(folder, Path(sys.argv[2])).seal)
print(dict(build(load(folder)).meta)["Measured"])
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", script, str(folder), str(tmp_path / zone.partition("/")[2])],
            env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True,
        ).stdout
        for zone in ("Asia/Tokyo", "America/New_York")
    }  # fmt: skip
    (one,) = said
    began, kind, _, measured = one.splitlines()
    assert began.endswith("+00:00")
    assert "UTC" in kind
    assert measured == f"{began[:10]} {began[11:16]} UTC"


def test_every_table_can_be_read_as_documented(tmp_path: Path) -> None:
    """Times too, by the DuckDB of this environment."""
    with RunWriter(tmp_path / "run") as writer:
        begin(writer)
        writer.trial(replace(record(), started_at=datetime(2026, 1, 2, tzinfo=UTC)))
    with duckdb.connect(str(tmp_path / "run" / "run.duckdb"), read_only=True) as run:
        for (table,) in run.sql("select table_name from duckdb_tables()").fetchall():
            run.sql(f'select * from "{table}"').fetchall()
        (when,) = run.sql("select started_at from trial").fetchall()
    assert when == (datetime(2026, 1, 2, tzinfo=UTC),)


def test_a_run_that_may_not_be_written_is_not_damaged(tmp_path: Path) -> None:
    error = duckdb.IOException('IO Error: Cannot open file "run.duckdb": Read-only file system')
    told = str(_open_error(tmp_path, error))
    assert "may not be written here" in told
    assert "damaged" not in told


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # write(2) names none

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        replace_text(tmp_path / "suite.toml", "name")
    assert raised.value.filename == str(tmp_path / "suite.toml")


def test_a_run_that_was_begun_before_loads_were_timed_goes_on(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run") as writer:
        begin(writer)
        writer.trial(record("k1"))
    with duckdb.connect(str(tmp_path / "run" / "run.duckdb")) as db:
        db.execute("alter table trial drop column load")
    with RunWriter(tmp_path / "run") as writer:
        writer.trial(replace(record("k2"), load={"load_s": 1.5, "ready_s": 2.0}))
    with RunReader(tmp_path / "run") as reader:
        loads = {row["key"]: row["load"] for row in reader.rows("select key, load from trial")}
    assert loads["k1"] is None
    assert json.loads(loads["k2"]) == {"load_s": 1.5, "ready_s": 2.0}
