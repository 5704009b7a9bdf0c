"""What the report says of rows that are looked for while a store loads, from invented figures."""

from __future__ import annotations

from typing import Any

import capacity_runs as made
import pytest
from report_tables import rows_of
from synthetic_runs import SECOND

from vectrial.document.blocks import Report
from vectrial.model.phase import Phase
from vectrial.report.build import build


def looks() -> list[Phase]:
    found = []
    for at, (stage, share) in enumerate((("loading", 0.2), ("after", 0.9), ("ready", 1.0))):
        phase = Phase("look", at * SECOND, at * SECOND + 1, {"stage": stage, "batch_rows": 1000})
        phase.metrics = {
            "elapsed_s": float(at), "acknowledged_rows": 100.0, "share_found": share, "errors": 0.0,
        }  # fmt: skip
        found.append(phase)
    whole = Phase("searchable", 0, 3 * SECOND, {"batch_rows": 1000})
    whole.metrics = {"load_s": 1.5, "ready_s": 2.5, "share_found": 1.0, "searchable_after_s": 0.5}
    return [*found, whole]


@pytest.fixture
def report() -> Report:
    trial = made.trial("weaviate", *looks(), experiment="time_to_searchable")
    return build(made.run_of([trial]))


def test_the_whole_load_has_a_row_with_what_is_asked_of_it(report: Report) -> None:
    rows = rows_of(report, "time-to-searchable")
    assert [row["phase"].text for row in rows] == ["look"] * 3 + ["searchable"]
    assert rows[-1]["searchable_after_s"].value == 0.5
    assert rows[-1]["ready_s"].value == 2.5
    assert rows[0]["searchable_after_s"].text == "", "of a look there is none"
    assert rows[-1]["elapsed_s"].text == ""


def drawn(report: Report) -> list[dict[str, Any]]:
    """The rows of every layer of the figure."""
    (figure,) = [f for f in report.figures() if f.name.startswith("searchable")]
    return [row for rows in figure.spec(800, True)["datasets"].values() for row in rows]


def test_only_looks_are_marks(report: Report) -> None:
    assert [row["value"] for row in drawn(report) if "value" in row] == [20.0, 90.0, 100.0]


def test_the_end_of_the_load_and_of_indexing_are_drawn(report: Report) -> None:
    """A store that answers from rows that are not indexed finds all of them at once: only these
    lines show that it indexes afterwards."""
    moments = {row["metric"]: row for row in drawn(report) if "metric" in row}
    assert {name: row["rows"] for name, row in moments.items()} == {"load_s": 1.5, "ready_s": 2.5}
    assert "last row acknowledged" in moments["load_s"]["description"]
    assert "served by the final index" in moments["ready_s"]["description"]


def test_whole_loads_have_a_table_of_their_own(report: Report) -> None:
    (table,) = [t for t in report.tables() if t.name.startswith("searchable")]
    ((store, loaded, ready, found, _),) = [row.cells for row in table.rows]
    assert (store.text, loaded.value, ready.value, found.value) == ("weaviate", 1.5, 2.5, 0.5)
