"""A figure that cannot be drawn costs itself alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import chart_of, finish_chart
from vectrial.document.charts.vegalite import channel
from vectrial.document.render import draw
from vectrial.results.clean import INSTEAD


def figure(title: str, points: int = 3) -> Figure:
    """Some points."""
    rows = [{"x": i, "y": i % 7, "n": title} for i in range(points)]
    chart = chart_of(rows).mark("point").encode(x="x:Q", y=channel("n:N", title=title))
    return Figure("a", title, "", "", lambda width, legend: finish_chart(chart, width, 200))


@pytest.mark.parametrize("name", ["esc \x1b[2J", "nul \x00", "half \ud800", "none \ufffe", "\f \b"])
def test_a_name_that_xml_forbids_is_drawn_without(name: str, tmp_path: Path) -> None:
    """No name read from a run is such a one; should one come, the program lives."""
    draw.export(figure(name), tmp_path)
    assert INSTEAD in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "a.png").is_file()


def test_a_figure_is_the_same_file_whatever_was_drawn_before_it() -> None:
    def bars(name: str) -> Figure:
        rows = [{"x": i, "n": name * 3} for i in range(3)]
        base = chart_of(rows).encode(x="x:Q", y=channel("n:N", axis=None))
        chart = base.mark("bar", clip=True)
        return Figure("a", name, "", "", lambda width, legend: finish_chart(chart, width, 200))

    first = draw.standalone_svg(bars("a"))
    assert "clip0" in first
    draw.standalone_svg(bars("b"))
    assert draw.standalone_svg(bars("a")) == first


def test_too_many_points_are_told() -> None:
    said = draw.svg(figure("many", draw.MOST_VALUES + 1), 300, True)
    assert "cannot be drawn: it has 40,001 points" in said


@pytest.mark.parametrize("points", [3, draw.MOST_VALUES + 1])
def test_a_plug_ins_own_specification_has_its_rows_inline(points: int) -> None:
    own = {
        "data": {"values": [{"x": x} for x in range(points)]},
        "mark": "point",
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    drawn = draw.svg(Figure("own", "own", "", "", lambda width, legend: own), 300, True)
    assert draw.is_drawn(drawn) == (points == 3)
