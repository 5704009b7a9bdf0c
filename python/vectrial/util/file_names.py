"""Names of files made from text: the text of a run may come from anybody."""

from __future__ import annotations

import re
import zlib

#: A name that is safe as it is: in no folder but its own, and not hidden.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def file_name(text: str) -> str:
    """A file name without suffix for any text: not a path, and different from that of any other
    text. A text that is such a name already is returned unchanged."""
    return text if _SAFE.fullmatch(text) else _unique(legible_name(text), text)


def slug(text: str) -> str:
    """A file and anchor name for any text: lower case, and different from that of any other
    text."""
    plain = _NOT_PLAIN.sub("-", text.lower()).strip("-")[:80]
    return plain if plain == text != "" else _unique(plain, text)


def legible_name(text: str) -> str:
    """The human-readable part of a file name, at most 80 characters; two texts may share it."""
    return _UNSAFE.sub("-", text)[:80].strip("-._")


def _unique(name: str, text: str) -> str:
    return f"{name}-{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}".strip("-")
