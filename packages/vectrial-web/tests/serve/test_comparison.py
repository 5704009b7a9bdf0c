"""Two sides as a page."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pytest
from served_pages import Client, figures_of
from starlette.testclient import TestClient

from vectrial.compare import document
from vectrial.compare.cells import ComparedCell
from vectrial.compare.judge import Verdict
from vectrial.model.results_schema import METRICS
from vectrial.stats.effects import mean_of
from vectrial.stats.verdict import VerdictKind
from vectrial_web.serve.runs import Runs


def ids(runs: Runs) -> tuple[str, str]:
    """Of the two runs of the folder."""
    found = {run.name: run.id for run in runs.listing()}
    return found["first"], found["deep/second"]


@pytest.mark.slow
def test_the_form_names_every_run_and_store(client: Client, runs: Runs) -> None:
    page = client().get("/compare").text
    for run in runs.listing():
        assert run.summary is not None
        assert f'value="{run.id}"' in page
        assert len(re.findall(rf'value="{run.id}:', page)) == 2 * len(run.summary.stores)


def test_two_stores_of_a_run(client: Client, runs: Runs) -> None:
    first, _ = ids(runs)
    asked = client()
    address = f"/compare?a={first}:faiss&b={first}:memory&metric=qps+p99"
    page = asked.get(address).text
    assert "B against A" in page
    worse = re.search(r"<h3>Worse</h3>\s*<p class=\"answer\"><span>(\d+)", page)
    assert worse is not None, "an exact scan is slower than an index"
    table = re.search(r'href="(/compare/table/verdicts-1\.csv\?[^"]*)"', page)
    assert table is not None
    rows = list(csv.DictReader(io.StringIO(asked.get(unescape(table[1])).text)))
    assert {row["verdict"] for row in rows} >= {"worse"}
    drawn = asked.get(f"/compare/figure/changes-1.png?{address.partition('?')[2]}")
    assert drawn.content.startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("query", ["a={0}:redis&b={1}:redis", "a={2}:faiss&b={2}:hnswlib"])
def test_every_figure_leads_to_the_phases_of_its_side(
    varied: Runs, varied_client: TestClient, query: str
) -> None:
    found = {run.name: run for run in varied.listing()}
    runs = [found[name].id for name in ("priced", "again", "swept")]
    asked = varied_client
    page = asked.get(f"/compare?{query.format(*runs)}&metric=qps+p99+disk+sustained_qps").text
    shown = [one for one in figures_of(page) if one.table != "card"]
    lost = {one.column for one in shown if one.href is None}
    assert lost <= {"Change", "Smallest detectable change"}, "computed of both sides"
    for one in shown:
        if one.href is None:
            continue
        side = re.match(r"/runs/([^/]+)/values\?metric=\w+&phases=[\d,]+(&recall=.*)?$", one.href)
        assert side is not None, one
        assert side[1] == (runs[one.column == "B"] if "{1}" in query else runs[2])
        made = figures_of(asked.get(one.href).text)
        assert len({cell.text for cell in made if cell.column == "Repeat"}) == 3
        trials = [cell.text for cell in made if cell.column == "Trial"]
        assert len(trials) in ((4, 5, 6) if "recall=" in one.href else (3,))
    read = any("recall=" in one.href for one in shown if one.href)
    assert read == ("{2}" in query), "redis has one setting: nothing is read off"


def test_a_figure_of_a_comparison_is_the_median_of_what_it_leads_to(
    varied: Runs, varied_client: TestClient
) -> None:
    found = {run.name: run for run in varied.listing()}
    a, b = found["priced"].id, found["again"].id
    asked = varied_client
    page = asked.get(f"/compare?a={a}:redis&b={b}:redis&metric=sustained_qps").text
    (figure,) = [one for one in figures_of(page) if one.column == "A"]
    assert figure.href is not None
    values = [one.text for one in figures_of(asked.get(figure.href).text) if "/s" in one.text]
    assert values[1] == figure.text.split()[0], "of three repeats the middle one"


def test_two_runs_chosen_in_the_list(client: Client, runs: Runs) -> None:
    first, second = ids(runs)
    page = client().get(f"/compare?run={first}&run={second}").text
    assert "a verdict needs 3" in page, "one of the runs has two repeats"
    assert f'value="{first}" selected' in page
    assert f'value="{second}" selected' in page


def test_a_recall_is_not_rounded_up() -> None:
    mean = mean_of([0.99949, 0.99996, 0.99999])
    phases = {1: (7, 8)}
    cell = ComparedCell("faiss", "search", "search", {}, METRICS["recall_mean"], phases_b=phases)
    shown = document._value(Verdict(cell, VerdictKind.TIE), mean, 1)
    assert shown.text == "0.9998"
    assert shown.detail == "0.9994–0.9999"
    assert shown.source is not None
    assert (shown.source.side, shown.source.phases) == (1, (7, 8))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("a={0}&b={0}", "both are the same run"),
        ("a={0}&b=nothing", "there is no such run"),
        ("a={0}&b=..%2f..", "there is no such run"),
        ("a={0}:faiss&b={0}:fais", "did you mean"),
        ("a={0}:faiss&b={0}:memory&metric=speed", "is not a metric"),
        ("a={0}:faiss&b={0}:memory&threshold=x", "is not a threshold"),
        ("a={0}:faiss&b={0}:memory&threshold=%20", "is not a threshold"),
        ("a={0}:faiss&b={0}:memory&threshold=5+10", "is not a threshold"),
        ("a={0}:faiss&b={0}:memory&recall=7", "is not a recall"),
        ("a={0}:faiss&b={0}:<script>", "&lt;script&gt;"),
        ("a={0}", "Two runs, store by store"),
        ("run={0}", "Two runs, store by store"),
    ],
)
def test_what_cannot_be_compared_is_said(client: Client, runs: Runs, query: str, said: str) -> None:
    answer = client().get(f"/compare?{query.format(*ids(runs))}")
    assert answer.status_code == 200
    assert said in answer.text
    assert "<select" in answer.text, "it can be mended at once"
