"""Figures as SVG and PNG, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from vectrial.document.blocks import Figure
from vectrial.document.charts.styles import variable_of
from vectrial.document.charts.theme import ink
from vectrial.model.errors import UserError
from vectrial.results.clean import clean, clean_name, parse_json

#: Points and rules of a drawing; more take minutes, and nobody sees them.
MOST_VALUES = 40_000
#: Plot widths of the two drawings in the HTML, and of exported figures.
WIDE, NARROW, EXPORT = 1080, 268, 760


def svg(figure: Figure, width: int, legend: bool) -> str:
    """The figure as an SVG text in the light colours, on transparent ground."""
    return _draw(figure.spec(width, legend))


def export(figure: Figure, folder: Path) -> None:
    """Write `<name>.svg` and `<name>.png` with a legend, on white. A figure that cannot be drawn
    has no PNG, and its SVG says why."""
    drawn = standalone_svg(figure)
    (folder / f"{figure.name}.svg").write_text(drawn, encoding="utf-8")
    if is_drawn(drawn):
        (folder / f"{figure.name}.png").write_bytes(png(drawn))


def standalone_svg(figure: Figure) -> str:
    """The figure as a standalone SVG text: with title and legend, on white."""
    specification = {
        **figure.spec(EXPORT, True),
        "background": ink("paper"),
        "title": {"text": figure.title, "anchor": "start", "color": ink("ink"), "offset": 12},
    }
    # Clips are numbered over all that a process draws: the same figure would be another file.
    numbers: dict[str, int] = {}
    return _CLIP.sub(
        lambda found: f"{found[1]}{numbers.setdefault(found[2], len(numbers))}",
        _draw(specification),
    )


def is_drawn(svg_text: str) -> bool:
    """True if an SVG text shows its figure rather than the reason why there is none."""
    return _FAILED not in svg_text


def png(svg_text: str) -> bytes:
    """An SVG text as PNG, at twice its size.

    Raises:
        UserError: it cannot be made.
    """
    import vl_convert  # here: 100 MB that only what draws needs

    try:
        return bytes(vl_convert.svg_to_png(svg_text, scale=2))
    except _REFUSALS as error:
        raise UserError(f"the figure cannot be drawn: {_first_line(error)}") from error


#: The renderer refuses a specification, or an SVG, by one of these.
_REFUSALS = (ValueError, RuntimeError)
#: Mark of the SVG of a figure that could not be drawn.
_FAILED = 'class="not-drawn"'


def _draw(specification: Mapping[str, Any]) -> str:
    """The specification as an SVG text, or an SVG that says why there is none: a figure that fails
    costs no report."""
    import vl_convert  # see `png`

    try:
        count = sum(map(len, _rows(specification)))
        if count > MOST_VALUES:
            raise ValueError(f"it has {count:,} points, more than {MOST_VALUES:,}")
        return str(vl_convert.vegalite_to_svg(_json(specification)))
    except _REFUSALS as error:
        said = escape(clean_name(f"This figure cannot be drawn: {_first_line(error)}"))
        return (
            f'<svg {_FAILED} xmlns="http://www.w3.org/2000/svg" width="{EXPORT}" height="40"'
            f' viewBox="0 0 {EXPORT} 40"><text x="0" y="24" font-family="sans-serif"'
            f' font-size="13" fill="{ink("ink")}">{said}</text></svg>'
        )


def _json(specification: Mapping[str, Any]) -> str:
    """The specification as JSON, without characters that XML forbids: they would end the process
    that draws them. No text of a run has any, and a plug-in's may."""
    text = clean(json.dumps(specification, ensure_ascii=False))
    return json.dumps(parse_json(text), ensure_ascii=False) if "\\" in text else text


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _rows(specification: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The rows of a specification: by name, as in ours, or inline, as possibly in a plug-in's."""
    inline = (specification.get("data") or {}).get("values", ())
    return [inline, *specification.get("datasets", {}).values()]


_CLIP = re.compile(r"(\bclip)(\d+)\b")
_COLOUR = re.compile(r'(fill|stroke)="(#[0-9a-fA-F]{6})"')
_SIZE = re.compile(r'(<svg[^>]*?) width="[\d.]+" height="[\d.]+"')
#: A layer without marks: a picture of nothing, for which there are no words.
_NOTHING = re.compile(
    r'<g class="[^"]*" role="graphics-symbol" aria-roledescription="[^"]*"(?:/>|></g>)'
)
_XLINK = ' xmlns:xlink="http://www.w3.org/1999/xlink"'
_SVG = ' xmlns="http://www.w3.org/2000/svg"'


def inline(drawing: str, stores: Sequence[str], label: str) -> str:
    """An SVG for use inside HTML: colours become style variables, its size that of its place.

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
