"""The process that draws, for `vectrial.document.render.draw`. Whatever a foreign run makes the
renderer do happens there, an abort included.

Requests: a Vega-Lite specification → SVG; an SVG → PNG at twice its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.util import apart

#: Points and rules of a drawing; more take minutes, and nobody sees them.
MOST_VALUES = 40_000
#: Seconds of processor time that one drawing may take.
SECONDS = 15.0
_MEMORY_BYTES = 1536 << 20

#: Those of this program.
PROCESSES = apart.Pool("vectrial.document.render.drawing", _MEMORY_BYTES, most=2)


def _handle(request: Mapping[str, Any], content: bytes) -> apart.Answer:
    import vl_convert  # here, since only this process draws

    text = content.decode("utf-8")
    try:
        if request["do"] == "png":
            return {}, bytes(vl_convert.svg_to_png(text, scale=2))
        return {}, str(vl_convert.vegalite_to_svg(text)).encode("utf-8")
    except ValueError as error:  # it refuses a specification so
        return {"error": str(error)}, b""


def main() -> None:
    """Answer drawing requests until the other end is closed."""
    apart.serve(_handle)
