"""Cleans text from other sources: characters that control a terminal, that XML forbids, or that
change the direction of writing become U+FFFD, the replacement character.

This is done once when a run is read or recorded, and again when a line goes to the terminal.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

INSTEAD = "\ufffd"
#: C0 except tab and newline; DEL and C1; directions of writing; surrogates; code points not in XML.
_NO_TEXT = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff"
)
_FAULT = re.compile(f"[{_NO_TEXT}\ud800-\udfff]")
_FAULT_SHOWN = re.compile(f"[{_NO_TEXT}\ud800-\udc7f\udd00-\udfff]")
_FAULT_IN_NAME = re.compile(f"[{_NO_TEXT}\ud800-\udfff\t\n]")
#: For RE2, which does not support surrogates; the text that it searches cannot hold any.
PATTERN, PATTERN_IN_NAME = f"[{_NO_TEXT}]", f"[{_NO_TEXT}\t\n]"


def clean(text: str) -> str:
    """Clean text of any number of lines. Windows line ends become newlines."""
    if _FAULT.search(text) is None:
        return text
    return _FAULT.sub(INSTEAD, text.replace("\r\n", "\n"))


def clean_for_display(text: str) -> str:
    """Like `clean`, but keeps surrogates, which represent undecodable bytes of a file's name."""
    if _FAULT_SHOWN.search(text) is None:
        return text
    return _FAULT_SHOWN.sub(INSTEAD, text.replace("\r\n", "\n"))


def clean_name(text: str) -> str:
    """Clean a name, or any other text of one line."""
    return _FAULT_IN_NAME.sub(INSTEAD, text)


def parse_json(text: str) -> Any:
    """Parse JSON, clean every text in it and replace numbers that are not finite by None.

    Raises:
        ValueError: it is not JSON, or it is nested too deeply.
    """
    try:
        found = _DECODER.decode(text)
        # Only an escape can add a character that the text itself does not hold.
        return _clean_value(found) if "\\" in text else found
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None


def _finite(number: str) -> float | None:
    found = float(number)
    return found if math.isfinite(found) else None


_DECODER = json.JSONDecoder(parse_constant=lambda name: None, parse_float=_finite)


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_value(one) for one in value]
    if isinstance(value, dict):
        return {clean_name(key): _clean_value(one) for key, one in value.items()}
    return value
