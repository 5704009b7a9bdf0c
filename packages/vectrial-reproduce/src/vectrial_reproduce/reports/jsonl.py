"""The cells of a reproduction as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from vectrial_reproduce.reports.collect import ComparedFigure

#: Keys of a cell as JSON, in order; more may follow.
KEYS = (
    "report", "experiment", "store", "params", "metric", "unit", "published", "measured", "ratio",
    "valid", "note",
)  # fmt: skip


def as_json(cell: ComparedFigure) -> dict[str, Any]:
    """One cell as an object with `KEYS`, then the rows loaded, the figure's source, the measured
    store, the number and range of repeats, and the same cell through the report's own client, or
    null."""
    figure = cell.figure
    instead = f"{cell.stand_in} stands in for {figure.params['dataset']}" if cell.stand_in else ""
    spread = cell.spread
    return {
        "report": figure.report,
        "experiment": figure.experiment,
        "store": figure.store,
        "params": dict(figure.params),
        "metric": figure.metric,
        "unit": figure.unit,
        "published": figure.value,
        "measured": cell.measured,
        "ratio": cell.ratio,
        "valid": cell.valid,
        "note": "; ".join(part for part in (cell.note, cell.differs, instead) if part),
        "rows": cell.rows,
        "source": figure.source,
        "measured_store": cell.store or None,
        "repeats": None if spread is None else spread.n,
        "low": None if spread is None else spread.low,
        "high": None if spread is None else spread.high,
        "client": cell.client or None,
        "through": None if cell.through is None else as_json(cell.through),
    }


def jsonl(cells: Sequence[ComparedFigure]) -> Iterator[str]:
    """One line for each cell."""
    for cell in cells:
        yield json.dumps(as_json(cell), ensure_ascii=False)
