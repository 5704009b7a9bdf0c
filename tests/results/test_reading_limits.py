"""A run of somebody else is read with limits, and reaches nothing but itself."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
from synthetic_runs import write_run

from vectrial.analysis import run_data
from vectrial.document.render import export
from vectrial.model.errors import UserError
from vectrial.results.clean import INSTEAD, clean, clean_name, parse_json
from vectrial.results.database import RunBeingWritten
from vectrial.results.reader import SECONDS, RunReader
from vectrial.results.writer import RunWriter

ENDLESS = "select sum(a.range) from range(100_000_000_000) a, range(1_000_000) b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits") / "run"
    with RunWriter(folder) as writer:
        writer.begin(suite_name="s", command="c", version="0", environment={})
        writer.finish()
    return folder


@pytest.mark.slow
def test_a_query_without_an_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "1")
    with RunReader(folder) as reader, pytest.raises(UserError, match="be read in 1 s") as told:
        reader.query(ENDLESS)
    assert SECONDS in str(told.value)
    with RunReader(folder) as reader:
        assert reader.run()["suite_name"] == "s", "the next one has its own time"


def test_what_would_fill_the_memory_is_refused(folder: Path) -> None:
    for sql in (
        "select * from range(100_000_000_000)",
        "select repeat('x', 300_000_000)",
        "select list(range) from range(10_000_000_000)",
    ):
        with RunReader(folder) as reader, pytest.raises(UserError):
            reader.query(sql)
    with RunReader(folder) as reader:
        assert reader.run()["suite_name"] == "s", "the next one finds its memory free"


def test_ten_million_rows_are_read_and_not_one_more(folder: Path) -> None:
    for more, fits in ((0, True), (1, False)):
        with RunReader(folder) as reader, nullcontext() if fits else pytest.raises(UserError):
            assert len(reader.query(f"select * from range({10_000_000 + more})")) == 10_000_000


def test_a_run_is_the_same_however_many_trials_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path / "run")
    whole, lines = run_data.load(folder), list(export.measurements(folder))
    assert len(whole.trials) > 7
    monkeypatch.setattr("vectrial.results.reader._TRIALS", 3)
    parts = run_data.load(folder)
    assert (parts.trials, parts.histograms) == (whole.trials, whole.histograms)

    def key(line: dict[str, Any]) -> list[str]:
        return [str(line[name]) for name in ("kind", "trial_key", "phase", "metric")]

    assert sorted(export.measurements(folder), key=key) == sorted(lines, key=key)


def test_a_figure_that_is_no_number_is_missing(folder: Path) -> None:
    """A forged run could break what draws and adds it; a value says why it is none beside."""
    with RunReader(folder) as reader:
        sql = "select 'nan'::double n, '-inf'::double i, 1.5::double f, 'inf'::double as value"
        assert reader.rows(sql) == [{"n": None, "i": None, "f": 1.5, "value": math.inf}]


def test_a_run_of_this_process_has_the_same_limits_but_that_of_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECONDS, "1e-9")
    with RunReader(folder, is_own_run=True) as reader:
        assert reader.rows("select 'a\x1bb' as name") == [{"name": f"a{INSTEAD}b"}]
        with pytest.raises(UserError, match="more than a report can be made of"):
            reader.query("select * from range(100_000_000_000)")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "copy run to '{there}'",
        "attach '{there}' as other",
        "load httpfs",
        "set enable_external_access = true",
        "set memory_limit = '100GB'",
        "set lock_configuration = false",
        "delete from run",
    ],
)
def test_a_query_reaches_no_other_file_and_lifts_no_limit(
    folder: Path, tmp_path: Path, sql: str
) -> None:
    with RunReader(folder) as reader, RunReader(folder) as second:
        with pytest.raises(UserError, match="damaged, or not a run's"):
            reader.query(sql.format(there=tmp_path / "there"))
        assert second.run()["suite_name"] == "s", "several may read a run at once"
    assert not list(tmp_path.iterdir())


def test_a_run_that_this_process_writes_is_being_written(folder: Path) -> None:
    with RunWriter(folder), pytest.raises(RunBeingWritten):
        RunReader(folder)


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf"])
def test_the_seconds_are_a_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv(SECONDS, given)
    with pytest.raises(UserError, match=SECONDS):
        RunReader(folder)


def test_text_is_cleaned_once_as_it_is_read(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run") as writer:
        writer.begin(suite_name="s", command="c", version="0", environment={"a": "\x1b[2J\x9b"})
    with duckdb.connect(str(tmp_path / "run" / "run.duckdb")) as db:
        db.execute("update run set suite_name = ?", ["a\x1b[2Jb\nc\x85\u202ed\ufffee"])
    with RunReader(tmp_path / "run") as reader:
        run = reader.run()
    assert run["suite_name"] == "a?[2Jb?c??d?e".replace("?", INSTEAD)
    assert run["environment"] == {"a": f"{INSTEAD}[2J{INSTEAD}"}


def test_what_is_text_stays() -> None:
    said = "größer\tals 5 µs\nzwei\u200d 中文 🙂"
    assert clean(said) == said
    assert clean("a\r\nb") == "a\nb"
    assert clean_name(said) == said.replace("\t", INSTEAD).replace("\n", INSTEAD)
    assert parse_json('{"a": [1e999, NaN, -Infinity, 2.5]}') == {"a": [None, None, None, 2.5]}
    with pytest.raises(ValueError, match="too deep"):
        parse_json("[" * 100_000)
