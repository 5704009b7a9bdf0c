"""docs/lies.md is what the tests say: at least forty lies, each with a test that exists."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 40


def test_the_page_is_what_the_tests_say() -> None:
    program = ROOT / "tests" / "support" / "lies.py"
    made = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )
    page = (ROOT / "docs" / "lies.md").read_text(encoding="utf-8")
    assert page == made.stdout, "make lies"
    lines = [line.split(" | ") for line in page.splitlines() if line.endswith("` |")]
    assert len(lines) >= LEAST
    assert len({line[0] for line in lines}) == len(lines), "each lie once"
    for *_, test in lines:
        file, _, name = test.strip(" `|").partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
