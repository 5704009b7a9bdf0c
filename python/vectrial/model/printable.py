"""Text of others made fit for a message: one line, no control characters, not too long."""

from __future__ import annotations

import unicodedata

#: Characters of a value that a message repeats.
_SHOWN = 80


def control_character(text: str) -> str | None:
    """The first character that ends lines, steers terminals or is not text; None if none."""
    return next((one for one in text if _is_control(one)), None)


def _is_control(one: str) -> bool:
    return unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in "\ufffe\uffff"


def printable(text: str) -> str:
    """`text` in one line, with every control character escaped."""
    line = " ".join(text.splitlines())
    if line.isprintable():
        return line
    return "".join(one if not _is_control(one) else f"\\x{ord(one):02x}" for one in line)


def shown(value: object) -> str:
    """The beginning of `value` in one line, for use in a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
