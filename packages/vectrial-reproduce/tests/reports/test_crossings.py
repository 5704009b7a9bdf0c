"""Where a series crosses a report's line."""

from __future__ import annotations

import pytest

from vectrial_reproduce.reports import REPRODUCTIONS, crossings
from vectrial_reproduce.reports.conditions import ReportConditions
from vectrial_reproduce.reports.crossings import crossing_rows
from vectrial_reproduce.reports.figures_data import Dot, Plot
from vectrial_reproduce.reports.figures_spec import DRAWINGS
from vectrial_reproduce.reports.model import Drawing
from vectrial_reproduce.reports.page import build

SIZES = next(one for one in DRAWINGS["docarray-1m"] if one.name == "latency-size-same")


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ([(1e3, 3.0), (1e5, 300.0)], 1e4),  # linear growth: a tenth of the line at a tenth
        ([(1e5, 300.0), (1e3, 3.0)], 1e4),
        ([(1e3, 3.0), (1e4, 3.0), (1e6, 300.0)], 1e5),
        ([(1e3, 10.0), (1e5, 90.0)], 1e4),  # a root: 30 is the geometric mean of both
        ([(1e3, 31.0), (1e5, 300.0)], 1e3),
        ([(1e3, 30.0), (1e5, 30.0)], None),
        ([(1e3, 3.0)], None),
        ([], None),
    ],
)
def test_a_crossing_is_between_two_sizes(
    points: list[tuple[float, float]], wanted: float | None
) -> None:
    found = crossing_rows(points, 30.0)
    assert found == (None if wanted is None else pytest.approx(wanted))


def plot_of(drawing: Drawing, *series: tuple[str, list[tuple[float, float]]]) -> Plot:
    dots = [
        Dot(system, False, str(x), x, value, rows=int(x))
        for system, points in series
        for x, value in points
    ]
    return Plot(drawing, tuple(dots), (), ())


def test_the_sentence_names_every_store() -> None:
    one = plot_of(
        SIZES,
        ("Sqlite", [(1e4, 30.0), (1e6, 3000.0)]),
        ("Weaviate", [(1e4, 1.0), (1e6, 4.0)]),
        ("None", [(1e4, 301.0), (1e6, 4000.0)]),
    )
    (said,) = crossings.sentences(one, lambda system: f"<{system}>")
    assert said.endswith(
        ": <Sqlite> at about 100,000 rows; <Weaviate> not within 1,000,000 rows;"
        " <None> at 10,000 rows or fewer, the smallest size."
    )
    assert not list(crossings.sentences(plot_of(SIZES), str))


def test_published_marks_cross_nothing() -> None:
    page = build(REPRODUCTIONS["docarray-1m"], (), ReportConditions(0.1, "a machine"), {})
    assert not any("crosses" in figure.caption for figure in page.figures())
