"""Footnotes: each once, wherever it is needed."""

from __future__ import annotations

from vectrial.document.blocks import (
    HEAD,
    Cell,
    Column,
    Report,
    Row,
    Section,
    Table,
    columns,
    footnotes,
)
from vectrial.document.render import html, markdown

TABLE = Table(
    "some",
    "Some table",
    (Column("a", "A", numeric=False), Column("b", "B", notes=("of the column",))),
    (
        Row((Cell("x", notes=("of the row",)), Cell("1", note="alone", notes=("shared",)))),
        Row((Cell("y"), Cell("2", notes=("shared", "of the row")))),
    ),
)


def test_notes_are_numbered_by_sentence() -> None:
    marks, notes = footnotes(TABLE)
    assert notes == ["of the column", "of the row", "alone", "shared"]
    assert marks == {(HEAD, 1): (1,), (0, 0): (2,), (0, 1): (3, 4), (1, 1): (4, 2)}


def test_every_form_has_them() -> None:
    report = Report("T", "", (), (), (), (Section("s", "S", "", (TABLE,)),))
    written = markdown.render(report)
    assert "| A | B [1] |" in written
    assert "| x [2] | 1 [3, 4] |" in written
    page = html.render(report)
    assert "<sup>3, 4</sup>" in page
    assert page.count("<li>shared</li>") == 1
    head = page[page.index("<thead>") : page.index("</thead>")]
    assert "<sup>1</sup>" in head


def test_the_column_of_a_metric_has_its_unit_and_title() -> None:
    assert Column.for_metric("latency_p99") == Column("latency_p99", "p99", "us", spread=True)
    assert Column.for_metric("errors", group="Load", key="lost", spread=False) == Column(
        "lost", "Errors", "1", "Load"
    )
    assert [column.title for column in columns("store", at="Setting")] == ["Store", "Setting"]
