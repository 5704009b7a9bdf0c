"""The section of a report on stores under limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from test_verdicts import steps, trial

from vectrial.analysis.fit import LimitsPurpose, fits
from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Trial, Value
from vectrial.document.blocks import Cell, Section, Table
from vectrial.experiments.fit.report import sections_of
from vectrial.suite.model import Prices

PRICES = Prices(
    dated=date(2026, 1, 1), source="a list", currency="USD", vcpu_hour=0.1, gib_hour=0.01,
    gib_month=0.1,
)  # fmt: skip


def section(trials: list[Any], prices: Prices | None = None) -> Section:
    run = RunData(Path("run"), {"run_id": "run", "environment": {}}, (), tuple(trials), {})
    (found,) = sections_of(run, fits(run), prices)
    return found


def tables(found: Section) -> list[Table]:
    return [block for block in found.blocks if isinstance(block, Table)]


def first_row(table: Table) -> dict[str, Cell]:
    keys = [column.key for column in table.columns]
    return dict(zip(keys, table.rows[0].cells, strict=True))


def test_the_answer_its_price_and_what_is_below() -> None:
    answers, below, every = tables(section(steps(), PRICES))
    cells = first_row(answers)
    assert cells["memory_bytes"].value == 120 * 2**20
    assert cells["of_raw"].value == pytest.approx(120 * 2**20 / 3200)
    assert (cells["processors"].value, cells["processors"].note) == (0.5, "")
    assert (cells["qps"].low, cells["qps"].value, cells["qps"].high) == (107.0, 108.0, 109.0)
    assert cells["month"].value == pytest.approx(730 * (0.5 * 0.1 + 120 / 1024 * 0.01))
    assert "killed: out of memory" in below.rows[0].cells[1].text
    assert "0.25 processor: slow: a load of 20 s" in below.rows[0].cells[2].text
    assert len(every.rows) == len(steps())


def in_process(one: Trial) -> Trial:
    """The trial in a measuring process of which 80 MiB are not the library's."""
    own = {"client_bytes": 80.0 * 2**20, "bare_bytes": 13.0 * 2**20}
    (load, *others) = one.phases
    values = {name: Value(value, "B", True, None) for name, value in own.items()}
    load = replace(load, metrics={**load.metrics, **values})
    return replace(one, lane="embedded", phases=(load, *others))


def test_what_a_library_takes_of_its_process() -> None:
    parts = ("process_bytes", "store_bytes", "client_bytes")
    answers, *_ = tables(section(steps()))
    cells = first_row(answers)
    assert {cells[name].note for name in parts} == {"a server's group holds nothing else"}
    answers, *_ = tables(section([replace(one, lane="embedded") for one in steps()]))
    cells = first_row(answers)
    assert {cells[name].note for name in parts} == {"not measured in this run"}
    assert cells["of_raw"].value == pytest.approx(120 * 2**20 / 3200)
    answers, *_ = tables(section([in_process(one) for one in steps()]))
    cells = first_row(answers)
    assert cells["store_bytes"].value == 40 * 2**20
    assert cells["process_bytes"].value == 53 * 2**20
    assert cells["of_raw"].value == pytest.approx(40 * 2**20 / 3200)
    assert cells["client_bytes"].value == 80 * 2**20


def test_an_answer_below_which_nothing_failed_is_at_most() -> None:
    held = [one for one in steps() if one.params["step"] not in (2, 4, 6)]
    answers, *_ = tables(section(held))
    notes = {key: cell.note for key, cell in first_row(answers).items()}
    assert notes["memory_bytes"] == notes["processors"] == "at most: no lower limit failed"
    assert "month" not in notes


def test_a_store_without_an_answer_has_the_reason() -> None:
    whole = trial(1, LimitsPurpose.WHOLE, 1000, 2.0, searched={"recall_mean": 0.5})
    answers, _ = tables(section([whole]))
    assert all("does not hold with the whole" in cell.note for cell in answers.rows[0].cells[1:])
