"""docs/traps.md holds: every trap has a line, every test that it names exists, every link leads
somewhere."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "traps.md"
#: How many traps each report has.
TRAPS = {"000": 12, "001": 6, "002": 10, "003": 3, "004": 5}
#: Folders of tests.
PLACES = r"tests|packages/[\w-]+/tests|python/vectrial/testing"
#: Lines of a table: the trap, what catches it, where it shows, the tests.
CELLS = 4


def lines() -> list[list[str]]:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "| 0" in line[:4]]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_trap_has_a_line() -> None:
    told = {cells[0].split()[0] for cells in lines()}
    assert told == {f"{report}-{n}" for report, most in TRAPS.items() for n in range(1, most + 1)}


def test_every_line_is_whole_and_every_test_it_names_exists() -> None:
    for cells in lines():
        assert len(cells) == CELLS, cells
        assert all(cells), cells
        named = re.findall(rf"`((?:{PLACES})/[\w/]+\.py)::(test_\w+)`", cells[-1])
        assert named, cells[0]
        assert len(named) == cells[-1].count("::")
        for file, name in named:
            assert (ROOT / file).is_file(), file
            assert name in functions_of(ROOT / file), f"{file}::{name}"


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target
