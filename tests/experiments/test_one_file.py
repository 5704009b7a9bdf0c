"""An experiment is one file or folder: no other file names it.

Published reports are measured by experiments that they name, as suites are; `capacity`, `tune` and
`fit` are commands that each ask one question by experiments of their own; `quick` and `run
--existing` write the suite that a user would.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from synthetic_runs import write_run

import vectrial
from vectrial.analysis.run_data import RunData, load
from vectrial.document.blocks import Report
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.report.build import build

PACKAGE = Path(vectrial.__file__).parent
#: What `names_it` looks at.
NAMING = (ast.ImportFrom, ast.Compare, ast.Subscript, ast.Call, ast.keyword, ast.Dict)
MAY_NAME = {
    *("cli/capacity.py", "cli/tune.py", "cli/fit.py", "cli/fit_bench.py"),
    *("plan/quick.py", "run/existing.py"),
}
#: What a report says of loads and phases, whichever experiments they are of.
ACROSS = ("glance", "equal-recall", "percentiles", "concurrency")


@cache
def naming_nodes() -> list[tuple[str, ast.AST]]:
    """Nodes of the package's modules that can name an experiment, with the module's place."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, NAMING)
    ]


def others(name: str) -> Iterator[tuple[str, ast.AST]]:
    """Those of modules that are not part of this experiment."""
    own = (f"experiments/{name}.py", f"experiments/{name}/", "reports/")
    for place, node in naming_nodes():
        if not place.startswith(own) and place not in MAY_NAME:
            yield place, node


def names_it(node: ast.AST, name: str) -> bool:
    """Whether the node imports the experiment, looks it up or asks whether something is of it."""
    match node:
        case ast.ImportFrom(module=str(module)):
            return f"{module}.".startswith(f"vectrial.experiments.{name}.")
        case ast.Compare():
            sides = [node.left, *node.comparators]
            of = any(isinstance(s, ast.Attribute) and s.attr == "experiment" for s in sides)
            return of and any(_is(side, name) for side in sides)
        case ast.Subscript(value=ast.Name(id="EXPERIMENTS")):
            return _is(node.slice, name)
        case ast.Call(func=ast.Attribute(attr="select")):
            return any(_is(argument, name) for argument in node.args)
        case ast.keyword(arg="experiment"):
            return _is(node.value, name)
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return any(k is not None and _is(k, "experiment") and _is(v, name) for k, v in pairs)
    return False


def _is(node: ast.AST, text: str) -> bool:
    match node:
        case ast.Constant(value=value):
            return value == text
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(_is(part, text) for part in parts)
    return False


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_other_file_names_an_experiment(name: str) -> None:
    found = [
        f"{place}:{getattr(node, 'lineno', '')}"
        for place, node in others(name)
        if names_it(node, name)
    ]
    assert not found, f"declare it in experiments/{name}: a role of a phase, a term, a section"


@pytest.mark.slow
def test_what_is_said_across_experiments_goes_by_the_roles_of_phases(tmp_path: Path) -> None:
    run = load(write_run(tmp_path / "run"))
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
