"""Figures as SVG and PNG, without a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import vl_convert

from vectrial.report.document import Figure
from vectrial.report.styles import variable_of
from vectrial.report.theme import ink

#: Plot widths of the two drawings in the HTML, and of exported figures.
WIDE, NARROW, EXPORT = 1080, 268, 760


def svg(figure: Figure, width: int, legend: bool) -> str:
    """The figure as an SVG text in the light colours, on transparent ground."""
    return str(vl_convert.vegalite_to_svg(dict(figure.spec(width, legend))))


def export(figure: Figure, folder: Path) -> None:
    """Write `<name>.svg` and `<name>.png` with a legend, on white."""
    drawn = alone(figure)
    (folder / f"{figure.name}.svg").write_text(drawn, encoding="utf-8")
    (folder / f"{figure.name}.png").write_bytes(png(drawn))


def alone(figure: Figure) -> str:
    """The figure as an SVG text that stands alone: with title and legend, on white."""
    specification = {
        **figure.spec(EXPORT, True),
        "background": ink("paper"),
        "title": {"text": figure.title, "anchor": "start", "color": ink("ink"), "offset": 12},
    }
    return str(vl_convert.vegalite_to_svg(specification))


def png(drawing: str) -> bytes:
    """An SVG text as PNG, at twice its size."""
    return bytes(vl_convert.svg_to_png(drawing, scale=2))


_COLOUR = re.compile(r'(fill|stroke)="(#[0-9a-fA-F]{6})"')
_SIZE = re.compile(r'(<svg[^>]*?) width="[\d.]+" height="[\d.]+"')
#: A layer without marks: a picture of nothing, for which there are no words.
_NOTHING = re.compile(
    r'<g class="[^"]*" role="graphics-symbol" aria-roledescription="[^"]*"(?:/>|></g>)'
)
_XLINK = ' xmlns:xlink="http://www.w3.org/1999/xlink"'
_SVG = ' xmlns="http://www.w3.org/2000/svg"'


def inline(drawing: str, stores: Sequence[str], label: str) -> str:
    """An SVG for use inside HTML: colours become style variables, the size that of its place.

    `label` is already escaped; it names the drawing to those who cannot see it.
    """
    names: Mapping[str, str] = variable_of(stores)

    def replaced(match: re.Match[str]) -> str:
        name = names.get(match[2].lower())
        return match[0] if name is None else f'{match[1]}="var({name})"'

    out = _COLOUR.sub(replaced, drawing)
    out = _NOTHING.sub("", out)
    out = out.replace(_XLINK, "").replace(_SVG, "")
    out = _SIZE.sub(r"\1", out, count=1)
    return out.replace("<svg", f'<svg role="group" aria-label="{label}"', 1)
