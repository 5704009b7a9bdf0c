"""'Did you mean …?'"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Longest list of names that an error still prints.
_READ = 20


def suggestion(word: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the nearest known name, or else all names unless they are too
    many to read."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.55)
    if close:
        return f"did you mean '{close[0]}'?"
    if len(names) > _READ:
        return ""
    return f"one of {', '.join(names)}" if names else "nothing is known by name here"
