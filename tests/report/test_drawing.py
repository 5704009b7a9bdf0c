"""Figures are drawn in a process of their own."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import chart_of, finished
from vectrial.document.charts.vegalite import channel
from vectrial.document.render import draw, drawing


def figure(title: str, points: int = 3) -> Figure:
    """Some points."""
    rows = [{"x": i, "y": i % 7, "n": title} for i in range(points)]
    chart = chart_of(rows).mark("point").encode(x="x:Q", y=channel("n:N", title=title))
    return Figure("a", title, "", "", lambda width, legend: finished(chart, width, 200))


@pytest.mark.parametrize("name", ["esc \x1b[2J", "nul \x00", "half \ud800", "none \ufffe"])
def test_a_name_that_xml_forbids_costs_its_figure(name: str, tmp_path: Path) -> None:
    """No name read from a run is such a one; should one come, the program lives."""
    draw.export(figure(name), tmp_path)
    svg = (tmp_path / "a.svg").read_text()
    if "cannot be drawn" in svg:
        assert not (tmp_path / "a.png").exists()
    assert "cannot" not in draw.svg(figure("sound"), 300, True)


def test_a_figure_is_the_same_file_whatever_was_drawn_before_it() -> None:
    def bars(name: str) -> Figure:
        rows = [{"x": i, "n": name * 3} for i in range(3)]
        base = chart_of(rows).encode(x="x:Q", y=channel("n:N", axis=None))
        chart = base.mark("bar", clip=True)
        return Figure("a", name, "", "", lambda width, legend: finished(chart, width, 200))

    first = draw.alone(bars("a"))
    assert "clip0" in first
    draw.alone(bars("b"))
    assert draw.alone(bars("a")) == first


def test_the_end_of_the_process_costs_one_figure_at_most() -> None:
    assert "cannot" not in draw.svg(figure("before"), 300, True)
    for child in psutil.Process().children():
        with suppress(psutil.ZombieProcess):  # of another test, which nobody has waited for
            if "vectrial.document.render.drawing" in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
    assert "cannot" not in draw.svg(figure("after"), 300, True)


def test_too_many_points_are_told() -> None:
    said = draw.svg(figure("many", drawing.MOST_VALUES + 1), 300, True)
    assert "cannot be drawn: it has 40,001 points" in said


@pytest.mark.parametrize("points", [3, drawing.MOST_VALUES + 1])
def test_a_plug_ins_own_specification_has_its_rows_inline(points: int) -> None:
    own = {
        "data": {"values": [{"x": x} for x in range(points)]},
        "mark": "point",
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    drawn = draw.svg(Figure("own", "own", "", "", lambda width, legend: own), 300, True)
    assert draw.is_drawn(drawn) == (points == 3)


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "SECONDS", 0.1)
    monkeypatch.setattr(drawing, "MOST_VALUES", 10**9)
    said = draw.svg(figure("slow", 300_000), 300, True)
    assert "cannot be drawn: it took more than 0.1 s of processor time" in said
