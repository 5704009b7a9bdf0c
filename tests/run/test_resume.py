"""A run that is interrupted, fails, or is gone on with: nothing that was measured is lost, and what
is said is what to type."""

from __future__ import annotations

import errno
import json
import os
import shlex
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from small_suite import REFUSED, TINY, Inside

from vectrial.cli import run_status
from vectrial.cli.run_suite import SuiteSource
from vectrial.datasets import library
from vectrial.model.dataset import Provenance
from vectrial.model.errors import SourceUnavailable
from vectrial.model.metric import Metric
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.run import measuring, prepare
from vectrial.run.prepare import new_folder, toml_of, write_suite
from vectrial.run.runner import Outcome
from vectrial.suite.model import parse_suite, read_suite


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def interrupted(*given: object) -> Outcome:
    raise KeyboardInterrupt


def folder_of(runs: Path) -> Path:
    (folder,) = (path for path in runs.iterdir() if not path.is_symlink())
    return folder


# -- the data of the run --------------------------------------------------------------------------


def saved(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    library.save(
        "mine",
        metric=Metric.L2,
        vectors=rng.random((rows, 4), dtype=np.float32),
        queries=rng.random((20, 4), dtype=np.float32),
        provenance=Provenance("a test", "none", ""),
        replace_existing=True,
    )


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(("rows", "seed"), [(120, 0), (90, 0), (100, 1)])
def test_a_dataset_that_was_replaced_is_not_mixed_with_the_earlier_one(
    inside: Inside, tiny: Path, rows: int, seed: int
) -> None:
    tiny.write_text(TINY.replace("clustered-16-2k", "mine"))
    saved(100, 0)
    folder = inside("run", str(tiny), "--no-report").out.strip()
    saved(rows, seed)
    again = inside("run", "--resume", folder, "--no-report")
    assert again.code == 2, again.err
    assert "dataset 'mine' is not what it was when this run began" in again.err
    saved(100, 0)
    assert inside("run", "--resume", folder, "--no-report").code == 0


# -- the suite of the run ------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_more_repeats_are_the_runs_from_then_on(inside: Inside, tiny: Path) -> None:
    first = inside("run", str(tiny), "--no-report")
    assert first.code == 0, first.err
    folder = Path(first.out.strip())
    assert (folder / "suite.toml").read_text() == TINY
    more = inside(
        "run", "--resume", str(folder), "--repeats", "2", "--no-report", "--format", "jsonl"
    )
    assert more.code == 0, more.err
    told = {"folder": str(folder), "trials": {"ok": 1}, "measured_before": 1}
    assert json.loads(more.out) == told
    assert read_suite(folder / "suite.toml").repeats == 2
    plan = inside("run", "--resume", str(folder), "--dry-run", "--format", "jsonl")
    assert plan.out == ""
    assert "2 of 2 trials were measured before" in plan.err
    plan = inside(
        "run", "--resume", str(folder), "--repeats", "3", "--dry-run", "--format", "jsonl"
    )
    assert [json.loads(line)["repeat"] for line in plan.out.splitlines()] == [3]
    again = inside("run", "--resume", str(folder), "--no-report", "--format", "jsonl")
    assert json.loads(again.out) == {**told, "trials": {}, "measured_before": 2}


def test_a_run_keeps_its_suite_but_for_more_repeats(tmp_path: Path) -> None:
    text = TINY + '[[stores]]\nstore = "hnswlib"\nindex = "hnsw"\n'
    whole = SuiteSource(parse_suite(text, "t.toml"), text, "t.toml")
    write_suite(tmp_path, whole.suite, text)
    kept = tmp_path / "suite.toml"
    assert kept.read_text() == text
    for only, repeats, there in ((["memory"], 1, 1), (["memory"], 3, 3), ([], 2, 3), ([], 5, 5)):
        write_suite(tmp_path, whole.restricted(only, repeats).suite, text)
        assert read_suite(kept).repeats == there
        assert [ref.store for ref in read_suite(kept).stores] == ["memory", "hnswlib"]
    assert [path.name for path in tmp_path.iterdir()] == ["suite.toml"]


def test_a_new_run_keeps_what_it_was_restricted_to(tmp_path: Path) -> None:
    suite = parse_suite(TINY, "t.toml").model_copy(update={"repeats": 2})
    write_suite(tmp_path, suite, TINY)
    assert (tmp_path / "suite.toml").read_text() == toml_of(suite)


def test_a_suite_comes_from_a_pipe_too(inside: Inside, tmp_path: Path) -> None:
    """It is read once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TINY,), daemon=True)
    writer.start()
    done = inside("run", str(pipe), "--dry-run", "--format", "jsonl")
    assert done.code == 0, done.err
    (line,) = map(json.loads, done.out.splitlines())
    assert line["kind"] == "trial"
    assert (line["store"], line["dataset"], line["rows"]) == ("memory", "clustered-16-2k", 2000)
    assert line["estimate_s"] > 0
    writer.join(timeout=10)


# -- what is said --------------------------------------------------------------------------------


def test_how_to_go_on_can_be_copied(
    inside: Inside, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / ("a folder [b] of :smile: and a name that is longer than a line, " + "x" * 60)
    monkeypatch.setattr(measuring, "run_plan", interrupted)
    done = inside("run", str(tiny), "--out", str(runs))
    assert (done.code, done.out) == (130, "")
    folder = folder_of(runs)
    line = f"interrupted; go on with: vectrial run --resume {shlex.quote(str(folder))}"
    assert line in done.err.splitlines()
    restricted = ("--repeats", "2", "--store", "memory")
    again = inside("run", "--resume", str(folder), *restricted)
    assert f"{line} --repeats 2 --store memory" in again.err.splitlines()


def test_a_run_that_is_gone_on_with_stays_where_it_is(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(TINY)
    done = inside("run", "--resume", str(tmp_path), "--out", "elsewhere")
    assert (done.code, done.out) == (2, "")
    assert "--out: a run goes on in its own folder" in done.err


# -- how it ends ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_what_was_measured_before_counts(inside: Inside, tiny: Path) -> None:
    """A store that is skipped, or refuses, does so again each time."""
    tiny.write_text(TINY + REFUSED)
    only = ("--store", "milvus-lite", "--no-report")
    assert inside("run", str(tiny), *only).code == 1, "nothing could be measured"
    assert inside("run", "--resume", "runs/latest", "--no-report").code == 1
    first = inside("run", str(tiny), "--no-report")
    assert first.code == 0, first.err
    assert inside("run", "--resume", "runs/latest", "--no-report").code == 0


def test_what_cannot_begin_leaves_no_run(
    inside: Inside, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object) -> object:
        raise SourceUnavailable("no package index answers")

    monkeypatch.setattr(prepare.catalog, "ensure", gone)
    done = inside("run", str(tiny))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == "vectrial: no package index answers"
    assert not (tmp_path / "runs").exists()


def test_what_was_measured_stays_though_it_cannot_be_gone_on_with(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object) -> object:
        raise SourceUnavailable("no package index answers")

    with RunWriter(tmp_path / "run"):  # nor is one that holds nothing yet removed by another call
        pass
    (tmp_path / "run" / "suite.toml").write_text(TINY)
    monkeypatch.setattr(prepare.catalog, "ensure", gone)
    assert inside("run", "--resume", "run").code == 2
    assert (tmp_path / "run" / "run.duckdb").is_file()


# -- a full disk ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_a_full_disk_ends_a_run_that_can_be_gone_on_with(
    inside: Inside, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, trials = RunWriter._insert, 0

    def full(writer: RunWriter, table: str, rows: Any) -> None:
        nonlocal trials
        trials += table == "trial"
        if trials == 2 and table == "metric":
            raise duckdb.IOException('IO Error: Could not write file "x": No space left on device')
        insert(writer, table, rows)

    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "_insert", full)
        done = inside("run", str(tiny), "--repeats", "3", "--no-report")
    assert (done.code, done.out) == (2, "")
    folder = folder_of(tmp_path / "runs")
    kept, said = done.err.splitlines()[-2:]
    again = f"vectrial run --resume {folder}"
    assert kept == f"what had been measured is kept; go on with: {again}"
    assert said.startswith(f"vectrial: {folder}: the run cannot be written: IO Error")
    assert "No space left on device" in said
    with RunReader(folder) as reader:
        (first,) = reader.rows("select key, started_at from trial")
        assert reader.rows("select count(*) as n from phase") == [{"n": 1}]
        assert reader.run()["finished_at"] is None

    resumed = inside(*shlex.split(again)[1:], "--no-report")
    assert resumed.code == 0, resumed.err
    with RunReader(folder) as reader:
        rows = reader.rows("select key, started_at, status from trial order by trial_id")
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert {k: rows[0][k] for k in first} == first, "it was not measured again"


def test_an_error_of_ours_tells_how_to_go_on_as_well(
    inside: Inside, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def broken(*given: object) -> Outcome:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(measuring, "run_plan", broken)
    with pytest.raises(RuntimeError):
        inside("run", str(tiny))
    folder = folder_of(tmp_path / "runs")
    assert f"go on with: vectrial run --resume {folder}\n" in capsys.readouterr().err


@pytest.mark.usefixtures("recorded")
def test_who_cannot_look_on_does_not_end_the_run(
    inside: Inside, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_status, "write_status", full)
    done = inside("run", str(tiny), "--no-report")
    assert done.code == 0, done.err
    assert done.err.count("progress.json cannot be written: No space left on device") == 1


def test_runs_of_one_second_are_numbered(tmp_path: Path) -> None:
    suite = parse_suite(TINY, "tiny.toml")
    made = []
    for _ in range(3):
        made.append(new_folder(tmp_path, suite))
        made[-1].mkdir()
    assert len(set(made)) == 3
