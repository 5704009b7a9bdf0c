"""A whole site: what it holds, where its links lead, and what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from html import unescape
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from forged_runs import forged
from served_pages import figures_of
from site_pages import Built, dead_links, read
from synthetic_runs import SCRIPT, write_run

from vectrial.analysis.run_data import load
from vectrial.model.errors import UserError
from vectrial.report.build import build as report_of
from vectrial_web.site.build import MARKER, SiteOptions, build
from vectrial_web.site.questions import QUESTIONS


def test_every_link_leads_somewhere(site: Built) -> None:
    assert list(dead_links(site.folder.resolve())) == []


def test_no_page_loads_anything(site: Built) -> None:
    for page in site.folder.rglob("*.html"):
        assert read(page).loads == [], page
        policy = unescape(page.read_text(encoding="utf-8")[:600])
        assert "default-src 'none'" in policy


def test_a_page_for_every_question_store_dataset_and_run(site: Built) -> None:
    there = {p.relative_to(site.folder).as_posix() for p in site.folder.rglob("*.html")}
    assert {f"questions/{question.name}.html" for question in QUESTIONS} <= there
    assert {"stores/hnswlib.html", "stores/weaviate.html"} <= there
    assert {"datasets/glove-words-50-20k.html", "datasets/clustered-32-16k.html"} <= there
    assert {f"runs/{one.source.id}/index.html" for one in site.results if one.facts} <= there
    assert "runs/torn/index.html" not in there


def test_what_cannot_be_read_is_listed_with_its_reason(site: Built) -> None:
    (torn,) = (one for one in site.results if one.facts is None)
    assert torn.source.name == "torn"
    assert torn.why
    assert "1 run not read" in site.page("runs.html")
    assert "1 run not read" in site.page("index.html")


def test_figures_of_a_run_are_those_of_its_report_and_lead_to_their_values(site: Built) -> None:
    report = report_of(load(site.runs / "demo" / "run.vectrial.tar.gz"))
    expected = [
        (table.name, f"{cell.text} {cell.detail}".strip(), bool(cell.source))
        for table in report.tables()
        for row in table.rows
        for cell, column in zip(row.cells, table.columns, strict=True)
        if column.numeric and any(c.isdigit() for c in f"{cell.text}{cell.detail}")
    ]
    shown = [one for one in figures_of(site.page("runs/demo/index.html")) if one.table != "card"]
    assert [(one.table, one.text, bool(one.href)) for one in shown] == expected
    assert sum(bool(one.href) for one in shown) > 100


def test_a_figure_leads_to_the_values_that_it_is_the_median_of(site: Built) -> None:
    shown = figures_of(site.page("questions/fastest.html"))
    (qps,) = (one for one in shown if one.text.startswith("27,348 ") and one.column == "QPS")
    assert qps.href is not None
    page, _, anchor = qps.href.partition("#")
    text = (site.folder / "questions" / page).read_text(encoding="utf-8")
    row = text.partition(f'<tr id="{anchor}">')[2].partition("</tr>")[0]
    low, high = qps.text.partition(" ")[2].split("–")
    assert "27,348" in row
    assert low in row
    assert high in row
    conditions = text.partition(f'id="{anchor.partition("-")[0]}"')[2].partition("<table")[0]
    assert "hnswlib" in conditions
    assert "glove-words-50-20k, 20,000 rows" in conditions


def test_tables_have_the_same_rows_as_json_and_parquet(site: Built) -> None:
    found = sorted(site.folder.rglob("*.json"))
    tables = [path for path in found if path.with_suffix(".parquet").is_file()]
    assert len(tables) > 60
    for path in tables:
        content = json.loads(path.read_text(encoding="utf-8"))
        columns = pq.read_table(path.with_suffix(".parquet"))
        assert len(content["rows"]) == columns.num_rows, path
        if content["rows"]:
            assert list(content["rows"][0]) == columns.column_names


def test_the_front_page_answers_the_questions(site: Built) -> None:
    text = site.page("index.html")
    assert "Of the tests" in text
    cheapest = [e for one in site.results for e in one.entries if e.question == "cheapest"]
    assert cheapest
    assert all(entry.why for entry in cheapest), "without prices nothing is ranked"
    assert "kept by pgvector, redis-search and sqlite" in text
    assert "weaviate 7 of 30" in text
    assert "Measured, and not ranked: the suite has no prices; 1 repeat" in text


def test_figures_say_how_they_are_embedded(site: Built) -> None:
    text = site.page("runs/demo/index.html")
    assert "https://results.example/site/runs/demo/files/recall-qps-" in text
    assert "This page shows 1 of 9 figures" in text


def test_raw_data_lie_beside_a_run(site: Built) -> None:
    folder = site.folder / "runs" / "demo"
    bundle = (site.runs / "demo" / "run.vectrial.tar.gz").read_bytes()
    assert (folder / "demo.vectrial.tar.gz").read_bytes() == bundle
    assert pq.read_table(folder / "trial.parquet").num_rows == 120


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path, site: Built) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="something else than a site"):
        build([site.runs], out, SiteOptions(), lambda done, of, what: None)
    assert (out / "thesis.txt").read_text() == "years of work"


def test_an_earlier_site_is_replaced_as_a_whole(tmp_path: Path, site: Built) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / MARKER).touch()
    (out / "old.html").touch()
    run = site.runs / "durability" / "weaviate-power-cuts"
    results = build([run], out, SiteOptions(figures=0), lambda done, of, what: None)
    assert [one.source.id for one in results] == ["weaviate-power-cuts"]
    assert not (out / "old.html").exists()
    assert (out / "index.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_somebody_else_put_into_a_site_stays_and_its_copies_of_runs_are_no_runs(
    tmp_path: Path, site: Built
) -> None:
    run = site.runs / "durability" / "weaviate-power-cuts"
    out = tmp_path / "here" / "site"
    shutil.copytree(run, tmp_path / "here" / "run")

    def written(expected: int) -> None:
        results = build(
            [tmp_path / "here"], out, SiteOptions(figures=0), lambda done, of, what: None
        )
        assert len(results) == expected

    written(1)
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (out / "CNAME").write_text("results.example")
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("mine")
    for _ in range(2):
        written(1)
        assert (out / ".git" / "HEAD").read_text() == "ref: refs/heads/main"
        assert (out / "CNAME").read_text() == "results.example"
        assert (out / "notes" / "mine.txt").read_text() == "mine"


def test_names_of_stores_are_text_and_wrong_stores_are_never_ranked(tmp_path: Path) -> None:
    stores = {name: (1.0, "hnsw", name != "broken") for name in (SCRIPT, "faiss", "broken")}
    write_run(tmp_path / "runs" / "one", stores=stores, efs=(16, 256), builds=((16, 128),))
    out = tmp_path / "site"
    build([tmp_path / "runs"], out, SiteOptions(figures=0), lambda done, of, what: None)
    assert list(dead_links(out.resolve())) == []
    assert all(SCRIPT not in p.read_text(encoding="utf-8") for p in out.rglob("*.html"))
    path = min((out / "files" / "questions" / "fastest").glob("fastest-glove-*-1-client-*.json"))
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    ranked = {row["store"]: row["rank"] for row in rows}
    assert ranked["broken"] is None
    assert ranked["faiss"] is not None
    assert (out / "runs" / "one" / "window.parquet").is_file()


def test_no_site_is_left_where_no_run_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "torn.vectrial.tar.gz").write_bytes(b"no bundle")
    out = tmp_path / "site"
    with pytest.raises(UserError, match="no run can be read"):
        build([tmp_path], out, SiteOptions(), lambda done, of, what: None)
    assert not out.exists()


# -- no text of a run is a path: whatever a run says, its pages stay in the folder of the site ----


@pytest.mark.slow
@pytest.mark.parametrize("up", ["absolute", "../" * 6])
def test_a_forged_run_changes_nothing_outside_its_site(tmp_path: Path, up: str) -> None:
    with forged(tmp_path, up) as (run, out):
        options = SiteOptions(figures=1)
        (result,) = build([run.parent], out, options, lambda done, of, what: None)
        assert not result.why, "the run is shown all the same"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
def test_no_process_outlives_the_command(
    tmp_path: Path, site: Built, number: signal.Signals
) -> None:
    words = ["site", str(site.runs), "--out", str(tmp_path / "out"), "--jobs", "2"]
    command = psutil.Popen(
        [sys.executable, "-m", "vectrial.cli.main", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        workers: list[psutil.Process] = []
        ends = time.monotonic() + 60
        while len(workers) < 2 and time.monotonic() < ends:
            time.sleep(0.05)
            workers = [one for one in command.children() if "spawn_main" in str(one.cmdline())]
        assert len(workers) >= 2
        command.send_signal(number)
        command.wait(60)
        _, alive = psutil.wait_procs(workers, 30)
        assert alive == []
    finally:
        with suppress(psutil.NoSuchProcess):
            command.kill()
