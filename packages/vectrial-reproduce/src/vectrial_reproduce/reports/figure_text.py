"""Figures of a reproduction as text: published ones as they were printed, measured ones by
the rules of `report.text`."""

from __future__ import annotations

from vectrial.util import formatting
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.model import Scalar
from vectrial_reproduce.reports.published import PublishedFigure

#: Sentence on the direction in which figures are better.
BETTER = "Of times, disk and overhead less than 1 is better, of rates more; of recalls, more."


def is_recall(metric: str) -> bool:
    """True if a published metric is a recall."""
    return metric == "recall"


def published_text(value: float) -> str:
    """A published value with its published digits: 0.01, 16,421.5."""
    return f"{value:,.10g}"


def measured_text(metric: str, measured: float) -> str:
    """A measured value of a published metric."""
    return formatting.recall(measured) if is_recall(metric) else formatting.number(measured)


def unit_suffix(figure: PublishedFigure) -> str:
    """' ms'; empty for a number without a unit."""
    return "" if figure.unit == "1" else f" {figure.unit}"


def comparison_text(cell: ComparedFigure) -> str:
    """'×0.24': measured over published. Recalls, which lie too close together, are given as the
    difference of the values shown, '+0.0014'."""
    if cell.measured is None or cell.ratio is None:
        return ""
    if not is_recall(cell.figure.metric):
        return formatting.ratio(cell.ratio, 2)
    difference = f"{float(formatting.recall(cell.measured)) - cell.figure.value:+.4f}"
    return "±0" if float(difference) == 0 else difference


def range_text(cell: ComparedFigure) -> str:
    """'2.9–3.3': the range of the repeats; empty if there is only one, or both ends read the
    same."""
    if cell.spread is None or cell.spread.kind == "single":
        return ""
    ends = [measured_text(cell.figure.metric, end) for end in (cell.spread.low, cell.spread.high)]
    return "" if ends[0] == ends[1] else "–".join(ends)


def setting_text(value: Scalar | None) -> str:
    """A published parameter: 'yes', '10,000'; empty if a row lacks it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def full_text(cell: ComparedFigure, *, with_unit: bool = False) -> str:
    """'12.9 → 3.1 (×0.24; 2.9–3.3)': the published value, the measured one, their ratio and the
    range of the repeats; '12.9 → —' if nothing was measured."""
    figure, of = cell.figure, unit_suffix(cell.figure) if with_unit else ""
    published = published_text(figure.value)
    if cell.measured is None:
        return f"{published} → {formatting.NOTHING}{of}"
    beside = "; ".join(filter(None, (comparison_text(cell), range_text(cell))))
    more = (f" ({beside})" if beside else "") + ("" if cell.valid else " ✗")
    return f"{published} → {measured_text(figure.metric, cell.measured)}{of}{more}"
