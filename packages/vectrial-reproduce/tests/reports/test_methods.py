"""The report's method and Vectrial's are set side by side where both have a value."""

from __future__ import annotations

from vectrial_reproduce.reports import methods
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.published import PublishedFigure


def cell(
    metric: str, ratio: float | None, *, rows: int = 10, valid: bool = True, lacks: str = ""
) -> ComparedFigure:
    figure = PublishedFigure("a report", "some", "Store", {}, metric, 2.0, "ms", "", "")
    measured = None if ratio is None else 2.0 * ratio
    return ComparedFigure(figure, measured, ratio, valid, (), rows, lacks=lacks)


def test_the_median_ratios_of_both_methods_stand_side_by_side() -> None:
    theirs = (0.8, 1.0, 1.2)
    ours = (0.1, 0.2, 0.6)
    pairs = [
        (cell("read", one), cell("read", other)) for one, other in zip(theirs, ours, strict=True)
    ]
    table = methods.table("methods", pairs)
    assert table is not None
    (row,) = table.rows
    assert [one.text for one in row.cells] == ["Store", "read", "3", "×1.0", "×0.20"]


def test_only_valid_times_of_the_same_rows_are_compared() -> None:
    good = cell("read", 1.0)
    pairs = [
        (good, cell("read", None)),
        (good, cell("read", 1.0, rows=11)),
        (cell("read", 1.0, valid=False), good),
        (cell("recall", 1.0), cell("recall", 1.0)),
        (cell("read", 1.0, lacks="a server"), cell("read", 1.0, lacks="a server")),
    ]
    assert methods.table("methods", pairs) is None
