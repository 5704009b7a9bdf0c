"""Two sides as a page."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from types import SimpleNamespace

import pytest
from served import Client

from vectrial.compare.cells import Cell
from vectrial.compare.judge import Kind, Verdict
from vectrial.results.schema import METRICS
from vectrial.serve import comparison
from vectrial.serve.runs import Runs
from vectrial.stats.intervals import spread_of


def ids(runs: Runs) -> tuple[str, str]:
    """Of the two runs of the folder."""
    found = {run.name: run.id for run in runs.listing()}
    return found["first"], found["deep/second"]


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
    links = [unescape(one) for one in re.findall(r'href="(/runs/[^"]*/trials\?[^"]*)"', page)]
    assert {re.sub(r"&.*", "", one) for one in links} == {
        f"/runs/{first}/trials?store=faiss",
        f"/runs/{first}/trials?store=memory",
    }
    assert asked.get(links[0]).status_code == 200
    table = re.search(r'href="(/compare/table/verdicts-1\.csv\?[^"]*)"', page)
    assert table is not None
    rows = list(csv.DictReader(io.StringIO(asked.get(unescape(table[1])).text)))
    assert {row["verdict"] for row in rows} >= {"worse"}
    drawn = asked.get(f"/compare/figure/changes-1.png?{address.partition('?')[2]}")
    assert drawn.content.startswith(b"\x89PNG")


def test_two_runs_chosen_in_the_list(client: Client, runs: Runs) -> None:
    first, second = ids(runs)
    page = client().get(f"/compare?run={first}&run={second}").text
    assert "a verdict needs 3" in page, "one of the runs has two repeats"
    assert f'value="{first}" selected' in page
    assert f'value="{second}" selected' in page


def test_a_recall_is_not_rounded_up() -> None:
    spread = spread_of([0.9496, 0.9497, 0.99951])
    cell = Cell("faiss", "recall_sweep", "search", {}, METRICS["recall_mean"])
    side = SimpleNamespace(store="faiss")
    shown = comparison._value(Verdict(cell, Kind.TIE), spread, "1", side, 1)  # type: ignore[arg-type]
    assert shown.text == "0.9497"
    assert shown.detail == "0.9496–0.9995"
    assert shown.source is not None
    assert shown.source.side == 1


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
