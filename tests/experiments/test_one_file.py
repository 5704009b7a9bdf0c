"""An experiment is one file or folder: no other file names it.

Published reports are measured by experiments that they name, as suites are; `capacity`, `tune` and
`fit` are commands that each ask one question by experiments of their own; `quick` and `run
--existing` write the suite that a user would.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest
from synthetic_runs import synthetic_run

from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Report
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.report.build import build

ROOT = Path(__file__).resolve().parents[2]
#: The packages, by folder; those of published reports are measured by experiments that they name.
PACKAGES = (ROOT / "python/vectrial", *sorted(ROOT.glob("packages/*/src/*")))
MAY_NAME = {
    *("questions/capacity.py", "questions/tune.py", "questions/fit.py", "questions/fit_suites.py"),
    *("cli/fit.py", "plan/quick.py", "run/existing.py"),
}
#: What a report says of loads and phases, whichever experiments they are of.
ACROSS = ("glance", "equal-recall", "percentiles", "concurrency")


class Naming(NamedTuple):
    """A place where an experiment is named."""

    name: str
    file: str
    line: int


@cache
def namings() -> list[Naming]:
    """Where the package's modules import an experiment, look one up or ask what something is of."""
    found = []
    for package, path in ((one, path) for one in PACKAGES for path in sorted(one.rglob("*.py"))):
        file = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in named_by(node):
                found.append(Naming(name, file, getattr(node, "lineno", 0)))
    return found


def named_by(node: ast.AST) -> Iterator[str]:
    """Experiments that the node imports, looks up or asks for, and other texts there."""
    match node:
        case ast.ImportFrom(module=str(module)) if re.match(r"vectrial\w*\.experiments\.", module):
            yield module.split(".")[2]
        case ast.Compare():
            sides = [node.left, *node.comparators]
            if any(isinstance(s, ast.Attribute) and s.attr == "experiment" for s in sides):
                yield from chain.from_iterable(map(_texts, sides))
        case ast.Subscript(value=ast.Name(id="EXPERIMENTS")):
            yield from _texts(node.slice)
        case ast.Call(func=ast.Attribute(attr="select")):
            yield from chain.from_iterable(map(_texts, node.args))
        case ast.keyword(arg="experiment"):
            yield from _texts(node.value)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and "experiment" in _texts(key):
                    yield from _texts(value)


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression is, or lists."""
    match node:
        case ast.Constant(value=str(value)):
            yield value
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            yield from chain.from_iterable(map(_texts, parts))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_other_file_names_an_experiment(name: str) -> None:
    own = (f"experiments/{name}.py", f"experiments/{name}/", "reports/")
    found = [
        f"{one.file}:{one.line}"
        for one in namings()
        if one.name == name and not one.file.startswith(own) and one.file not in MAY_NAME
    ]
    assert not found, f"declare it in experiments/{name}: a role of a phase, a term, a section"


@pytest.mark.slow
def test_what_is_said_across_experiments_goes_by_the_roles_of_phases() -> None:
    run = synthetic_run().data()
    by_other_names = replace(
        run, trials=tuple(replace(t, experiment=f"my_{t.experiment}") for t in run.trials)
    )
    assert shown(run) == shown(by_other_names)
    assert all(shown(run).values())


def shown(run: RunData) -> dict[str, list[tuple[str, ...]]]:
    """By kind of table, the texts of its rows."""
    report: Report = build(run)
    answers = [(a.question, a.answer, a.figure) for _, cards in report.answers for a in cards]
    rows = {
        kind: [
            tuple(cell.text for cell in row.cells)
            for table in report.tables()
            if table.name.startswith(kind)
            for row in table.rows
        ]
        for kind in ACROSS
    }
    return rows | {"answers": answers}
