"""Tables of a report, by their columns' keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.document.blocks import Table


def rows_of(report: Any, name: str) -> list[dict[str, Any]]:
    """The cells of each row of the table of this name, or else of the one whose name begins so."""
    tables = report.tables()
    named = [table for table in tables if table.name == name]
    (table,) = named or [table for table in tables if table.name.startswith(name)]
    return cells_of(table)


def cells_of(table: Table) -> list[dict[str, Any]]:
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row.cells, strict=True)) for row in table.rows]


def drawn(report: Any, name: str) -> list[Mapping[str, Any]]:
    """What the one figure whose name begins so draws, of its first layer."""
    (figure,) = [figure for figure in report.figures() if figure.name.startswith(name)]
    values: list[Mapping[str, Any]] = next(iter(figure.spec(800, True)["datasets"].values()))
    return values
