"""A clock that is set while something is measured: no duration comes from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Files that read the time of day, to write it down. None of them subtracts it from another.
_STAMPS = {
    "vectrial/cli/run_status.py",  # when a status was written
    "vectrial/results/writer.py",  # when a run began and ended
    "vectrial/run/existing.py",  # when a collection was read
    "vectrial/run/prepare.py",  # the name of a folder
    "vectrial/worker/worker.py",  # when a trial began
    "vectrial_reproduce/commands/reproduce.py",  # the name of a folder
}
_OF_DAY = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow")}


def test_the_time_of_day_is_only_written_down() -> None:
    found = {
        path.relative_to(folder).as_posix(): tree
        for folder in (ROOT / "python", *ROOT.glob("packages/*/src"))
        for path in folder.rglob("*.py")
        if any(_readings(tree := ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found.keys() == _STAMPS
    for name, tree in found.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp | ast.Compare):
                assert not any(_readings(node)), f"{name}:{node.lineno} reckons with it"


def test_the_engine_has_no_time_of_day() -> None:
    for path in (ROOT / "engine/src").rglob("*.rs"):
        assert "SystemTime" not in path.read_text(encoding="utf-8"), path


def _readings(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that read the time of day."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if isinstance(of, ast.Name) and (of.id, node.func.attr) in _OF_DAY:
                yield node
