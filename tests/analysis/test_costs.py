"""What a measured load costs."""

from __future__ import annotations

from datetime import date
from typing import Any

import capacity_runs as made
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_tables import cells_of
from synthetic_runs import SECOND, STORES, synthetic_run

from vectrial.analysis.cost_basis import GIB, ResourceUse, bill
from vectrial.document.blocks import Cell, Section, Table
from vectrial.model.errors import UserError
from vectrial.model.phase import Phase, Role
from vectrial.report.build import build
from vectrial.results.writer import TrialRecord
from vectrial.suite.model import Prices, parse_suite

PRICES = Prices(
    dated=date(2026, 11, 1),
    source="a list",
    currency="USD",
    vcpu_hour=0.04,
    gib_hour=0.005,
    gib_month=0.1,
)
SUITE = """
name = "demo"
datasets = [{ name = "glove-words-100" }]
stores = [{ store = "faiss", index = "hnsw" }]
experiments = [{ experiment = "search" }]
"""


def test_a_bill_is_what_one_computes_by_hand() -> None:
    due = bill(
        ResourceUse(processors=2, memory_bytes=4 * GIB, disk_bytes=10 * GIB, qps=1000), PRICES
    )
    assert due.processors == pytest.approx(730 * 2 * 0.04)
    assert due.memory == pytest.approx(730 * 4 * 0.005)
    assert due.disk == pytest.approx(1.0)
    assert due.month == pytest.approx(58.4 + 14.6 + 1.0)
    assert due.per_million == pytest.approx(74.0 / (730 * 3600 * 1000) * 1e6)


@given(
    qps=st.floats(1e-3, 1e6),
    more=st.floats(1.0, 1e3),
    disk=st.none() | st.floats(0, 1e13),
)
def test_twice_the_answers_cost_half_each(qps: float, more: float, disk: float | None) -> None:
    one = bill(ResourceUse(2, GIB, disk, qps), PRICES)
    other = bill(ResourceUse(2, GIB, disk, qps * more), PRICES)
    assert other.month == one.month
    assert other.per_million * more == pytest.approx(one.per_million)


def cost_section(suite: str) -> Section | None:
    stores = {name: STORES[name] for name in ("faiss", "broken")}
    run = synthetic_run(stores=stores, builds=((16, 128),), efs=(64, 256))
    run.suite = suite
    found = [section for section in build(run.data()).sections if section.name == "cost"]
    return found[0] if found else None


@pytest.mark.slow
def test_a_report_has_costs_only_with_prices() -> None:
    assert cost_section(SUITE) is None
    section = cost_section(SUITE + made.SHEET)
    assert section is not None
    assert "2026-11-01" in section.lead
    (table,) = section.blocks
    assert isinstance(table, Table)
    broken, by_key = (by_store(table)[store] for store in ("broken", "faiss"))
    assert broken["million"].value is None, "what failed the gate has no price"
    assert "one client: failed the gate: " in broken["million"].note
    assert by_key["recall"].value >= 0.95
    month, million = by_key["month"].value, by_key["million"].value
    assert million == pytest.approx(month / (730 * 3600 * by_key["qps"].value) * 1e6)
    memory = by_key["memory"].value / GIB * 0.005 * 730
    disk = (by_key["disk"].value or 0) / GIB * 0.1
    assert month == pytest.approx(730 * by_key["processors"].value * 0.04 + memory + disk)


def cost_table(*trials: TrialRecord, suite: str = SUITE) -> Table:
    """The table of costs of a run of these trials."""
    report = build(made.run_of(trials, suite + made.SHEET))
    (table,) = [table for table in report.tables() if table.name == "cost"]
    return table


def by_store(table: Table) -> dict[str, dict[str, Cell]]:
    """Its rows."""
    return {row["store"].text: row for row in cells_of(table)}


def cost_rows(*trials: TrialRecord) -> dict[str, dict[str, Cell]]:
    return by_store(cost_table(*trials))


def by_one(figures: dict[str, float | None]) -> Phase:
    """Searches by one client."""
    return Phase("search", 0, SECOND, {"clients": 1}, figures, role=Role.SEARCH)


def footprint(store: str) -> TrialRecord:
    """Of the same build as `made.trial`, a memory of one GiB."""
    phase = Phase("footprint", 0, SECOND, {}, {"rss_bytes": float(GIB)}, role=Role.SIZE)
    return made.trial(store, phase, experiment="storage", params={})


def test_a_capacity_is_priced_at_its_answer_and_not_at_a_look() -> None:
    looks = made.alone(5000), made.look(1, 900), made.look(2, 1050, "p99 31 ms", 31_000.0)
    found = made.sustains(1000, p99_us=9_000.0)
    row = cost_rows(made.trial("faiss", *looks, found))["faiss"]
    assert (row["qps"].value, row["p99"].value) == (1000, 9_000)
    assert row["load"].text == "the highest sustained rate"
    assert "held" not in row["at"].text


def test_a_store_without_an_answer_has_a_row_that_says_why() -> None:
    slow = by_one(made.figures(900, 900.0, recall=0.93))
    lost = made.trial("milvus", experiment="search")
    lost.status, lost.reason = "skipped", "no program"
    table = cost_table(
        made.trial("faiss", made.sustains(1000)),
        made.trial("redis", made.nothing("no rate was confirmed: at 900/s: p99 31 ms")),
        made.trial("weaviate", slow, experiment="search"),
        lost,
        footprint("usearch"),
        suite=SUITE.replace("stores = [", 'stores = [{ store = "pgvector", index = "hnsw" }, '),
    )
    rows = by_store(table)
    said = {store: row["million"].note for store, row in rows.items()}
    assert said == {
        "faiss": "its resources are not known",
        "redis": "highest sustained rate: no rate was confirmed: at 900/s: p99 31 ms",
        "weaviate": "one client: the greatest recall is 0.9300, below 0.95",
        "milvus": "search: no program",
        "usearch": "no search says what it answers: highest sustained rate, open loop,"
        " several clients, one client",
        "pgvector": "it was not measured in this run",
    }
    assert {row.cells[0].text: row.tone for row in table.rows} == {
        store: "ok" if store == "faiss" else "absent" for store in rows
    }


def test_the_floor_is_the_one_that_the_capacity_was_asked_with() -> None:
    """Also of what else stands for a store beside it."""
    found = made.sustains(1000)
    found.params = {**found.params, "recall": 0.9}
    found.metrics["recall_mean"] = 0.91
    wide = by_one(made.figures(800, 900.0, recall=0.92))
    poor = by_one(made.figures(800, 900.0, recall=0.89))
    rows = cost_rows(
        made.trial("faiss", found),
        made.trial("redis", wide, experiment="search"),
        made.trial("milvus", poor, experiment="search"),
    )
    assert [row["floor"].value for row in rows.values()] == [0.9] * 3
    assert [row["qps"].value for row in rows.values()] == [1000, 800, None]
    assert rows["milvus"]["qps"].note == "one client: the greatest recall is 0.8900, below 0.9"


def test_every_floor_that_was_asked_has_a_row() -> None:
    high = made.sustains(400)
    high.params = {**high.params, "recall": 0.99}
    table = cost_table(made.trial("faiss", made.sustains(1000), high))
    rows = cells_of(table)
    assert [(row["floor"].value, row["qps"].value) for row in rows] == [(0.95, 1000), (0.99, 400)]


def test_a_capacity_of_at_least_costs_at_most() -> None:
    rows = cost_rows(
        made.trial("weaviate", made.at_least(1000)),
        footprint("weaviate"),
        made.trial("faiss", made.sustains(1000)),
        footprint("faiss"),
    )
    bound, known = rows["weaviate"], rows["faiss"]
    assert bound["million"].value == pytest.approx(known["million"].value)
    assert bound["million"].text == f"at most {known['million'].text}"
    assert bound["qps"].text == f"at least {known['qps'].text}"
    assert bound["million"].note == "at least 1,000/s: client-bound"
    assert bound["load"].text == "a sustained rate; the highest is not known"
    assert bound["month"].text == known["month"].text


def client_notes(server: dict[str, Any] | None, placement: str) -> list[str]:
    """What is said of whom the client shares processors with, of a run on cores 0 and 1."""
    trials = made.trial("redis", made.sustains(1000), server=server)
    table = cost_table(trials, suite=SUITE + placement)
    return [note for note in table.notes if note.startswith("The client shared")]


@pytest.mark.parametrize(
    ("server", "placement", "shared"),
    [
        (None, "", True),
        ({"provider": "local", "cores": [0]}, "", False),
        ({"provider": "local", "cores": [0, 1]}, "", True),
        ({"provider": "local", "cores": []}, "", True),
        ({"provider": "local", "cores": [0, 1], "cpus": 1.0}, "", False),
        (
            {"provider": "local", "cores": [0]},
            "[placement]\nclient_cores = [0]\nserver_cores = [0]\n",
            True,
        ),
        ({"provider": "external", "cores": []}, "", False),
    ],
)
def test_that_the_client_shares_the_billed_processors_is_said(
    server: dict[str, Any] | None, placement: str, shared: bool
) -> None:
    notes = client_notes(server, placement)
    assert len(notes) == shared
    assert all("of redis:" in note for note in notes)


@pytest.mark.parametrize(
    ("server", "processors"),
    [
        ({"provider": "local", "cores": [*range(8)], "cpus": 2.0}, 2.0),
        ({"provider": "local", "cores": [*range(8)], "cpus": 12.0}, 8.0),
        ({"provider": "docker", "cores": [], "cpus": 1.5}, 1.5),
        ({"provider": "docker", "cores": [*range(8)]}, 8.0),
        ({"provider": "local", "cores": []}, 2.0),
        (None, 2.0),
        ({"provider": "external", "cores": [*range(8)]}, None),
    ],
)
def test_a_server_is_billed_the_processors_that_it_was_held_to(
    server: dict[str, Any] | None, processors: float | None
) -> None:
    """The machine has two."""
    rows = cost_rows(made.trial("redis", made.sustains(1000), server=server))
    assert rows["redis"]["processors"].value == processors


def test_a_wrong_price_is_named() -> None:
    with pytest.raises(UserError, match=r"prices\.vcpu_hour"):
        parse_suite(SUITE + made.SHEET.replace("0.04", "-1"), "suite")
    with pytest.raises(UserError, match=r"prices\.dated"):
        parse_suite(SUITE + made.SHEET.replace("dated = 2026-11-01", ""), "suite")
