"""The list, a run's pages, and what can be taken away from them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import pyarrow.parquet as pq
import pytest
from served_pages import Client, client_of, figures_of
from starlette.testclient import TestClient
from synthetic_runs import STORES, write_run

from vectrial.model.errors import UserError
from vectrial.results import note
from vectrial.results.progress import Status, read_status, write_status
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial_web.serve import app, live
from vectrial_web.serve.app import make_app
from vectrial_web.serve.auth import Access
from vectrial_web.serve.runs import ListedRun, Runs, summary_of
from vectrial_web.serve.trials import values_report


def named(runs: Runs, name: str) -> ListedRun:
    (run,) = (run for run in runs.listing() if run.name == name)
    return run


def small_run(folder: Path) -> Path:
    """A run of one store: a trial and a phase for each of three repeats."""
    stores = {"faiss": (1.0, "hnsw", True)}
    return write_run(folder, stores=stores, efs=(16,), builds=((16, 128),), only_sweep=True)


@pytest.mark.slow
def test_list(client: Client, runs: Runs) -> None:
    page = client().get("/").text
    assert "2 runs" in page
    for run in runs.listing():
        assert f'href="/runs/{run.id}"' in page
    assert "gate failed: broken" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("store=hnswlib", {"deep/second"}), ("store=broken", {"first"}),
        ("q=deep", {"deep/second"}),
        ("q=DEMO", {"first", "deep/second"}), ("state=running", set()), ("q=deep+first", set()),
        ("store=nothing", set()),
    ],
)  # fmt: skip
def test_filters(client: Client, runs: Runs, query: str, found: set[str]) -> None:
    page = client().get(f"/?{query}").text
    assert {run.name for run in runs.listing() if f'href="/runs/{run.id}"' in page} == found


#: What of a report leads nowhere, by the beginning of a table's name: headings of columns.
NOT_LED = {
    # What was asked for, or is counted beside the figures: the row's figures lead to it.
    "": {"Clients", "Repeat", "Repeats", "Rows", "Step", "Offered QPS",
         "Target recall", "Floor"},
    # What it was given, and what is computed from the rest of the row.
    "cost": {"CPUs", "Per month", "Per million queries"},
    # Of no measurement.
    "datasets": {"Rows", "Dimension", "Queries", "Raw", "Metadata"},
    "not-measured": {"Count"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swept", "priced"])
def test_every_figure_of_a_report_leads_to_what_it_was_made_of(
    varied: Runs, varied_client: TestClient, name: str
) -> None:
    asked, run = varied_client, named(varied, name)
    shown = figures_of(asked.get(f"/runs/{run.id}").text)
    assert len(shown) > 50
    lost = {(one.table, one.column) for one in shown if one.href is None}
    allowed = {
        (table, column)
        for table, column in lost
        if any(table.startswith(part) and column in said for part, said in NOT_LED.items())
    }
    assert lost == allowed
    # Of each column one is followed.
    for one in {(one.table, one.column): one for one in shown if one.href is not None}.values():
        assert one.href is not None
        answer = asked.get(one.href)
        assert answer.status_code == 200, one
        assert re.search(rf'href="/runs/{run.id}/trials/\d+"', answer.text), one


def test_a_card_leads_to_the_figure_that_it_tells(varied: Runs, varied_client: TestClient) -> None:
    asked, run = varied_client, named(varied, "priced")
    cards = [one for one in figures_of(asked.get(f"/runs/{run.id}").text) if one.table == "card"]
    (card,) = [one for one in cards if "metric=sustained_qps" in (one.href or "")]
    assert card.href is not None
    figures = [one for one in figures_of(asked.get(card.href).text) if one.column != "Trial"]
    values = [one.text for one in figures if "rate" in one.column]
    assert values[1] == card.text, "of three repeats the middle one"


@pytest.mark.slow
def test_what_is_read_between_two_points_leads_to_both(client: Client, runs: Runs) -> None:
    asked, run = client(), named(runs, "first")
    shown = figures_of(asked.get(f"/runs/{run.id}").text)
    exact = [one for one in shown if one.column == "QPS at exactly this recall"]
    (one, *_) = exact
    assert one.href is not None
    assert "recall=" in one.href
    page = asked.get(one.href).text
    recalls = [float(cell.text) for cell in figures_of(page) if cell.column == "Recall"]
    wanted = float(one.href.partition("recall=")[2])
    assert len(recalls) == 6, "three repeats of each of two settings"
    assert min(recalls) < wanted < max(recalls)
    assert f"read off at a recall of {wanted:g}" in page
    assert asked.get(re.sub("recall=.*", "recall=7", one.href)).status_code == 400


def test_values_are_those_measured(client: Client, runs: Runs) -> None:
    asked, run = client(), named(runs, "first")
    with RunReader(run.folder) as reader:
        (row,) = reader.rows("select * from metric where name = 'qps' order by phase_id limit 1")
    address = f"/runs/{run.id}/values/table/values.csv?metric=qps&phases={row['phase_id']}"
    (line,) = csv.DictReader(io.StringIO(asked.get(address).text))
    assert float(line["value [1/s]"]) == row["value"]
    for wrong in (
        "metric=qps&phases=",
        "metric=none&phases=1",
        "phases=1",
        "metric=qps&phases=x,-1",
    ):
        assert asked.get(f"/runs/{run.id}/values?{wrong}").status_code == 404


def test_what_a_figure_was_made_of_says_what_counts(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    with duckdb.connect(str(folder / "run.duckdb")) as db:
        db.execute("update metric set valid = false where phase_id = 1 and name = 'qps'")
        db.execute("update metric set valid = false, value = null where phase_id = 2")
        db.execute("update metric set value = 0.9496 where phase_id = 3 and name = 'recall_mean'")
    states = {}
    for metric in ("qps", "recall_mean"):
        report = values_report(folder, metric, [1, 2, 3])
        assert report is not None
        (table,) = report.tables()
        for row in table.rows:
            states[metric, row.cells[0].value] = (row.cells[2].text, row.cells[3].text)
    assert [states["qps", trial][1] for trial in (1, 2, 3)] == ["invalid", "no value", "ok"]
    assert states["recall_mean", 1][1] == "ok"
    assert states["recall_mean", 3] == ("0.9496", "ok"), "not rounded up"
    assert "their sum" in report.sections[0].lead, "a count is no median"


def test_trials_are_filtered(client: Client, runs: Runs) -> None:
    run = named(runs, "first")
    assert run.summary is not None
    asked = client()
    every = asked.get(f"/runs/{run.id}/trials").text
    assert f"{sum(run.summary.counts.values())} of" in every
    some = asked.get(f"/runs/{run.id}/trials?store=broken&experiment=crud").text
    assert "3 of" in some


def test_the_list_of_trials_is_laid_out_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = client_of(runs), named(runs, "first")
    laid_out: list[str] = []
    page = app.html.page
    monkeypatch.setattr(
        app.html, "page", lambda *args, **more: (laid_out.append(""), page(*args, **more))[1]
    )
    every = asked.get(f"/runs/{run.id}/trials").text
    assert asked.get(f"/runs/{run.id}/trials").text == every
    assert len(laid_out) == 1
    some = asked.get(f"/runs/{run.id}/trials?store=broken").text
    assert "?store=broken" in some, "its files are of those trials, too"
    assert len(laid_out) == 2


@pytest.mark.slow
def test_downloads(client: Client, runs: Runs) -> None:
    asked, run = client(), named(runs, "first")
    page = asked.get(f"/runs/{run.id}").text
    files = {kind: re.search(rf'href="([^"]+\.{kind})" download', page)
             for kind in ("csv", "parquet", "svg", "png")}  # fmt: skip
    got = {}
    for kind, found in files.items():
        assert found is not None, kind
        answer = asked.get(found[1])
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].startswith("attachment")
        got[kind] = answer.content
    rows = list(csv.reader(io.StringIO(got["csv"].decode())))
    table = pq.read_table(io.BytesIO(got["parquet"]))
    assert table.column_names == rows[0]
    assert table.num_rows == len(rows) - 1 > 0
    assert ElementTree.fromstring(got["svg"]).tag.endswith("svg")
    assert got["png"].startswith(b"\x89PNG")


def test_everything_measured_can_be_taken(client: Client, runs: Runs) -> None:
    asked, run = client(), named(runs, "first")
    data = f"/runs/{run.id}/data"
    lines = list(csv.reader(io.StringIO(asked.get(f"{data}/measurements.csv").text)))
    table = pq.read_table(io.BytesIO(asked.get(f"{data}/measurements.parquet").content))
    jsonl = asked.get(f"{data}/measurements.jsonl").text.splitlines()
    assert table.num_rows == len(lines) - 1 == len(jsonl) > 100
    with RunReader(run.folder) as reader:
        count = reader.table("metric").num_rows
    assert pq.read_table(io.BytesIO(asked.get(f"{data}/metric.parquet").content)).num_rows == count
    assert "description" in asked.get(f"{data}/suite.toml").text


def test_logs(client: Client, runs: Runs) -> None:
    run = named(runs, "first")
    with RunReader(run.folder) as reader:
        (trial,) = reader.rows("select * from trial where store = 'faiss' order by 1 limit 1")
    logs = run.folder / "logs"
    logs.mkdir(exist_ok=True)
    name = f"faiss-hnsw-{trial['rows']}-r{trial['repeat']}-{trial['key'][:8]}"
    (logs / f"{name}.log").write_text("the <b>process</b> said\n")
    (logs / f"{name}-server.log").write_text("x" * 50_000 + "\nthe server's last line\n")
    page = client().get(f"/runs/{run.id}/trials/{trial['trial_id']}").text
    for said in ("Parameters", "search", "latency_p99", "Checks"):
        assert said in page
    assert "the &lt;b&gt;process&lt;/b&gt; said" in page
    assert "the server&#39;s last line" in page
    assert len(client().get(f"/runs/{run.id}/logs/{name}-server.log").content) > 50_000


def test_summaries_are_kept_and_made_anew(folder: Path, tmp_path: Path) -> None:
    fresh = Runs(folder)
    assert {run.state for run in fresh.listing()} == {"unread"}
    fresh.read_all()
    read = fresh.listing()
    assert {run.state for run in read} == {"finished"}
    again = Runs(folder)
    assert again.listing() == read, "nothing is read again"
    database = folder / "first" / "run.duckdb"
    stat = database.stat()
    try:
        os.utime(database, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
        changed = Runs(folder)
        assert named(changed, "first").state == "unread", "it was changed"
        changed.read_all()  # else it would write what is kept while that is looked at below
    finally:
        os.utime(database, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (kept,) = (tmp_path / "home" / "serve").iterdir()
    kept.write_text("[1, {broken")
    anew = Runs(folder)
    assert {run.state for run in anew.listing()} == {"unread"}
    anew.read_all()


def news_of(runs: Runs, page: str) -> str:
    """What a page of the list is told in two looks."""

    class Ending(threading.Event):
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 2

    address = re.search(r'id="runs" [^>]*data-events="([^"]+)"', page)
    assert address is not None
    app = make_app(runs, Access(), Ending())
    return TestClient(app, base_url="http://localhost:8877").get(unescape(address[1])).text


def test_what_was_read_before_a_page_asked_for_news_is_told_to_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_ALL_S", 0)
    fresh = Runs(folder)
    asked = TestClient(make_app(fresh, Access()), base_url="http://localhost:8877")
    page = asked.get("/").text
    assert "2 still being read" in page
    fresh.read_all()
    assert news_of(fresh, page).count("event: changed") == 1
    page = asked.get("/").text
    assert "still being read" not in page
    assert "event: changed" not in news_of(fresh, page)


@pytest.mark.parametrize("place", ["runs", "blocks"])
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path, place: str) -> None:
    """Whatever its path is called: a block is no lock."""
    bad = tmp_path / place / "bad"
    bad.mkdir(parents=True)
    (bad / "run.duckdb").write_bytes(b"this is no database")
    runs = Runs(tmp_path / place)
    runs.read_all()
    (run,) = runs.listing()
    assert run.state == "unreadable"
    assert "damaged" in run.why
    with pytest.raises(UserError, match="damaged"):
        summary_of(bad)


def test_a_run_that_is_damaged_hinders_no_other(tmp_path: Path) -> None:
    for name in ("a-bad", "b-foreign", "c-strange", "d-good"):
        small_run(tmp_path / "runs" / name)
    for name, does in (
        ("a-bad", "drop table trial"),
        ("b-foreign", "drop table run; create table run (x integer)"),
        (
            "c-strange",
            "create table x as select * replace (null as suite_name) from run;"
            " drop table run; alter table x rename to run",
        ),
    ):
        with duckdb.connect(str(tmp_path / "runs" / name / "run.duckdb")) as db:
            db.execute(does)
    with RunWriter(tmp_path / "runs" / "e-never-begun"):
        pass
    runs = Runs(tmp_path / "runs")
    runs.read_all()
    states = {run.name: run.state for run in runs.listing()}
    assert states.pop("d-good") == "finished"
    assert states == dict.fromkeys(
        ("a-bad", "b-foreign", "c-strange", "e-never-begun"), "unreadable"
    )
    kept = Runs(tmp_path / "runs")
    assert {run.state for run in kept.listing()} == {"unreadable", "finished"}, "once is enough"
    asked = client_of(runs)
    answer = asked.get(f"/runs/{named(runs, 'a-bad').id}")
    assert answer.status_code == 400
    assert "damaged" in answer.text
    good = named(runs, "d-good").id
    for number in ("9" * 40, "9" * 5000, "0", "-1", "x"):
        assert asked.get(f"/runs/{good}/trials/{number}").status_code == 404


def test_a_run_that_another_process_had_open(tmp_path: Path) -> None:
    """As with a shell that looks at it; that it is closed changes no file."""
    folder = small_run(tmp_path / "runs" / "run")
    script = "import duckdb, sys; db = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder / "run.duckdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        runs = Runs(tmp_path / "runs")
        runs.read_all()
        (run,) = runs.listing()
        assert run.state == "running"
        assert "another process has it open" in run.why
        files = (folder / "run.duckdb").stat()
        other.communicate("\n", timeout=30)
    assert (folder / "run.duckdb").stat().st_mtime_ns == files.st_mtime_ns
    runs.read_all()
    assert named(runs, "run").state == "finished"


def status(**changed: object) -> Status:
    now = time.time()
    told = {"pid": os.getpid(), "began": now, "updated": now, "trials": 8, "done": 3}
    return Status.model_validate({**told, **changed})


def test_a_run_under_way(client: Client, runs: Runs) -> None:
    run = named(runs, "deep/second")
    write_status(run.folder, status(job="<b>weaviate</b>", recent=("one ended",)))
    try:
        assert named(runs, "deep/second").state == "running"
        page = client().get(f"/runs/{run.id}").text
        assert "3 of 8" in page
        assert "&lt;b&gt;weaviate" in page
        assert "one ended" in page
        assert "3 of 8" in client().get("/").text
        write_status(run.folder, status(ended=True))
        assert named(runs, "deep/second").state == "finished"
        write_status(run.folder, status(began=1.0))
        assert named(runs, "deep/second").state == "finished", "its number is another process' now"
        with client().stream("GET", f"/runs/{run.id}/events") as stream:
            assert "event: ended" in "".join(stream.iter_text())
    finally:
        (run.folder / "progress.json").unlink()
    assert read_status(run.folder) is None
    assert client().get("/runs/none/events").status_code == 404


@pytest.mark.slow
def test_the_address_can_be_piped(tmp_path: Path) -> None:
    own = {"VECTRIAL_HOME": str(tmp_path / "home"), "VECTRIAL_SERVE_TOKEN": ""}
    command = [sys.executable, "-m", "vectrial.cli.main", "serve", str(tmp_path), "-p", "0"]
    process = subprocess.Popen(
        [*command, "--format", "jsonl"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["address"].startswith("http://127.0.0.1:")
        assert (told["folder"], told["pid"]) == (str(tmp_path.resolve()), process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        Runs(tmp_path / "none")


# -- the note on a run, in the list of runs -------------------------------------------------------


TEXT = "new <b>disk</b>"


def test_a_list_of_runs_has_it_and_sees_that_it_changed(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    write_run(run, repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
    assert summary_of(run).note == ""
    runs = Runs(run.parent)
    runs.read_all()
    note.write(run, TEXT)
    runs.read_all()
    (listed,) = runs.listing()
    assert listed.summary is not None
    assert listed.summary.note == TEXT
