"""What a measured load costs."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import capacity_runs as made
from synthetic import write_run
from vectrial.errors import UserError
from vectrial.report.build import build
from vectrial.report.costs import GIB, Use, bill
from vectrial.report.data import load
from vectrial.report.document import Cell, Section, Table
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
experiments = [{ experiment = "recall_sweep" }]
"""
SHEET = """
[prices]
dated = 2026-11-01
source = "a <b>list</b>"
currency = "USD"
vcpu_hour = 0.04
gib_hour = 0.005
gib_month = 0.10
"""


def test_a_bill_is_what_one_computes_by_hand() -> None:
    due = bill(Use(processors=2, memory_bytes=4 * GIB, disk_bytes=10 * GIB, qps=1000), PRICES)
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
    one = bill(Use(2, GIB, disk, qps), PRICES)
    other = bill(Use(2, GIB, disk, qps * more), PRICES)
    assert other.month == one.month
    assert other.per_million * more == pytest.approx(one.per_million)


def cost_section(folder: Path, suite: str) -> Section | None:
    write_run(folder, builds=((16, 128),))
    (folder / "suite.toml").write_text(suite)
    found = [section for section in build(load(folder)).sections if section.name == "cost"]
    return found[0] if found else None


def test_a_report_has_costs_only_with_prices(tmp_path: Path) -> None:
    assert cost_section(tmp_path / "without", SUITE) is None
    section = cost_section(tmp_path / "with", SUITE + SHEET)
    assert section is not None
    assert "2026-11-01" in section.lead
    (table,) = section.blocks
    assert isinstance(table, Table)
    rows = {
        row.cells[0].text: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows
    }
    assert "broken" not in rows, "what failed the gate has no price"
    by_key = {column.key: cell for column, cell in rows["faiss"].items()}
    assert by_key["recall"].value >= 0.95
    month, million = by_key["month"].value, by_key["million"].value
    assert million == pytest.approx(month / (730 * 3600 * by_key["qps"].value) * 1e6)
    memory = by_key["memory"].value / GIB * 0.005 * 730
    disk = (by_key["disk"].value or 0) / GIB * 0.1
    assert month == pytest.approx(730 * by_key["processors"].value * 0.04 + memory + disk)


def cost_rows(folder: Path, *trials: TrialRecord) -> dict[str, dict[str, Cell]]:
    """Of a run of these trials, the rows of the table of costs by store."""
    report = build(made.run_of(folder, trials, SUITE + SHEET))
    (table,) = [table for table in report.tables() if table.name == "cost"]
    keys = [column.key for column in table.columns]
    return {row.cells[0].text: dict(zip(keys, row.cells, strict=True)) for row in table.rows}


def test_a_capacity_is_priced_at_its_answer_and_not_at_a_look(tmp_path: Path) -> None:
    looks = made.alone(5000), made.look(1, 900), made.look(2, 1050, "p99 31 ms", 31_000.0)
    rows = cost_rows(
        tmp_path / "r",
        made.trial("faiss", *looks, made.sustains(1000, p99_us=9_000.0)),
        made.trial("redis", *looks, made.nothing("no rate was confirmed: at 900/s: p99 31 ms")),
        made.trial("weaviate", *looks, made.at_least(1000)),
    )
    assert rows.keys() == {"faiss"}, "without an answer there is nothing to price"
    row = rows["faiss"]
    assert (row["qps"].value, row["p99"].value) == (1000, 9_000)
    assert row["load"].text == "the greatest rate that it sustained"
    assert "held" not in row["at"].text


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
    server: dict[str, Any] | None, processors: float | None, tmp_path: Path
) -> None:
    """The machine has two."""
    rows = cost_rows(tmp_path / "r", made.trial("redis", made.sustains(1000), server=server))
    assert rows["redis"]["processors"].value == processors


def test_a_wrong_price_is_named() -> None:
    with pytest.raises(UserError, match=r"prices\.vcpu_hour"):
        parse_suite(SUITE + SHEET.replace("0.04", "-1"), "suite")
    with pytest.raises(UserError, match=r"prices\.dated"):
        parse_suite(SUITE + SHEET.replace("dated = 2026-11-01", ""), "suite")
