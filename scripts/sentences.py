"""Docstrings that a reader has to read twice, found by their form.

    python scripts/sentences.py    # prints each with the remedy; exit code 1 if there are any

A docstring says what a thing is before it says what it is of: a sentence that begins with "Those
whose" or a field that is "of which" leaves out the noun that everything else hangs on.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("python/vectrial", "packages/*/src", "scripts")
#: A field's name, or several, and words that begin what it is of.
_FIELDS = r"[a-z]\w*(?:, [a-z]\w*)*"
_OWNERS = "the|its|an?|each|every|all|these|this|their|one"
#: Forms that are refused, each with its remedy.
PATTERNS = {
    r"\A(?:Those|That|It|None)\b": "begin with the noun: what it is, or what it returns",
    r"\A(?:As|Of) ": "begin with the noun: what it is, or what it returns",
    r"\bNone where there is none\b": "say of what: 'None if the store has no index'",
    r"\bas of `": "see `…`",
    r"(?m)^\s*`?\w+`?: of (?:which|what|whom)\b": "say what the field is",
    rf"(?m)(?:^|[.;] )`?{_FIELDS}`?: of (?:{_OWNERS})\b": "say what the field is: 'k: number of …'",
}


def faults(text: str) -> Iterator[str]:
    """The remedies for a docstring; none for one that is fine."""
    for pattern, remedy in PATTERNS.items():
        if re.search(pattern, text):
            yield remedy


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def main() -> int:
    """Print what is refused."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0][:60]!r}: {remedy}"
        for folder in FOLDERS
        for place in sorted(ROOT.glob(folder))
        for path in sorted(place.rglob("*.py"))
        for line, text in docstrings(path)
        for remedy in faults(text)
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
