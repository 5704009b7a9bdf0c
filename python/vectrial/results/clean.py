"""Text of somebody else's, without what is no text: characters that steer a terminal, that XML
forbids, or that turn what is read around. Each becomes U+FFFD, the replacement character.

It is done once, as a run is read or recorded, and again where a line goes to the terminal.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

INSTEAD = "\ufffd"
#: C0 but tab and newline; DEL and C1; directions of writing; surrogates; what XML forbids.
_NO_TEXT = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff"
)
_FAULT = re.compile(f"[{_NO_TEXT}\ud800-\udfff]")
_FAULT_SHOWN = re.compile(f"[{_NO_TEXT}\ud800-\udc7f\udd00-\udfff]")
_FAULT_IN_NAME = re.compile(f"[{_NO_TEXT}\ud800-\udfff\t\n]")
#: For RE2, which knows no surrogates; nor can what it searches hold any.
PATTERN, PATTERN_IN_NAME = f"[{_NO_TEXT}]", f"[{_NO_TEXT}\t\n]"


def clean(text: str) -> str:
    """Text of any number of lines. A line that ends as those of Windows do ends with a newline."""
    if _FAULT.search(text) is None:
        return text
    return _FAULT.sub(INSTEAD, text.replace("\r\n", "\n"))


def shown(text: str) -> str:
    """As `clean`, but for bytes of a file's name that are no text, which stand as surrogates."""
    if _FAULT_SHOWN.search(text) is None:
        return text
    return _FAULT_SHOWN.sub(INSTEAD, text.replace("\r\n", "\n"))


def clean_name(text: str) -> str:
    """A name, or whatever else is one line."""
    return _FAULT_IN_NAME.sub(INSTEAD, text)


def parsed(text: str) -> Any:
    """JSON, with every text in it cleaned, and None in place of numbers that are not finite.

    Raises:
        ValueError: it is none, or it is nested too deep to be read.
    """
    try:
        found = json.loads(text, parse_constant=lambda name: None, parse_float=_finite)
        # Only by an escape can a character get in that the text itself does not hold.
        return _cleaned(found) if "\\" in text else found
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None


def _finite(number: str) -> float | None:
    found = float(number)
    return found if math.isfinite(found) else None


def _cleaned(found: Any) -> Any:
    if isinstance(found, str):
        return clean(found)
    if isinstance(found, list):
        return [_cleaned(one) for one in found]
    if isinstance(found, dict):
        return {clean_name(key): _cleaned(value) for key, value in found.items()}
    return found
