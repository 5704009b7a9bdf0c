"""The figures of the published reports, as data; nothing measured here ever touches them.

One `published.csv` in each report's package, in the report's own order, one row per published
figure. `params` names what a figure depends on by Vectrial's own names: `m`, `ef_search`,
`clients`, `rows`, ….
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from vectrial.model.errors import DataError, UserError
from vectrial.util.suggest import suggestion
from vectrial_reproduce.reports.registry import REPRODUCTIONS, folder

#: Every unit a figure may have; "1" is a number without a unit, "x" times as much.
UNITS = frozenset(
    {"1", "%", "x", "s", "ms", "min", "h", "MB", "GB", "MB/s", "rows/s", "queries/s", "ops/s"}
)

#: Units of time, in seconds.
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

Scalar = bool | int | float | str

_COLUMNS = ("experiment", "store", "params", "metric", "value", "unit", "source", "note")


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure.

    experiment: the part of the report it belongs to. store: its name in the report.
    source: the table, figure or file of the report that has it.
    note: caveat for the reader; empty if there is none.
    """

    report: str
    experiment: str
    store: str
    params: Mapping[str, Scalar]
    metric: str
    value: float
    unit: str
    source: str
    note: str

    @property
    def comparable_value(self) -> float:
        """The value, with times in seconds: figures of one metric may have been published in
        different units."""
        return self.in_comparable_unit(self.value)

    def in_comparable_unit(self, value: float) -> float:
        """A value given in this figure's unit, with times converted to seconds."""
        return value * SECONDS.get(self.unit, 1.0)


@cache
def figures(report: str) -> tuple[PublishedFigure, ...]:
    """Every figure of a report, in its order.

    Raises:
        UserError: there is no such report.
        DataError: its file is damaged.
    """
    if report not in REPRODUCTIONS:
        raise UserError(
            f"there are no figures of a report '{report}'", remedy=suggestion(report, REPRODUCTIONS)
        )
    path = folder(report) / "published.csv"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            "the report has no published.csv", where=REPRODUCTIONS.where(report)
        ) from error
    lines = csv.DictReader(text.splitlines())
    if tuple(lines.fieldnames or ()) != _COLUMNS:
        raise DataError(f"its columns are not {', '.join(_COLUMNS)}", where=str(path))
    return tuple(_figure(report, row, f"{path}:{at}") for at, row in enumerate(lines, 2))


def _figure(report: str, row: Mapping[str, str], where: str) -> PublishedFigure:
    if row["unit"] not in UNITS:
        raise DataError(f"'{row['unit']}' is not a unit of published figures", where=where)
    try:
        value = float(row["value"])
        params = dict(pair.split("=", 1) for pair in row["params"].split())
    except ValueError as error:
        raise DataError(f"a published figure cannot be read: {error}", where=where) from error
    return PublishedFigure(
        report,
        row["experiment"],
        row["store"],
        {name: _scalar(text) for name, text in params.items()},
        row["metric"],
        value,
        row["unit"],
        row["source"],
        row["note"],
    )


def _scalar(text: str) -> Scalar:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text
