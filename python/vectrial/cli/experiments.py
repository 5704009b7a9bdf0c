"""`vectrial experiments`: the experiments with their parameters."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticUndefined
from rich.box import SIMPLE_HEAD
from rich.table import Table

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, stdout_console, warn_broken
from vectrial.experiments.base import Experiment
from vectrial.experiments.registry import EXPERIMENTS


def experiments(form: options.FormatOption = Format.TABLE) -> None:
    """List the experiments with their parameters and defaults.

    \b
    vectrial experiments
    vectrial experiments --format jsonl | jq -c '[.experiment, .parameters]'

    In a suite:

        [\\[experiments]]
        experiment = "recall_sweep"
        search = { ef_search = [16, 64] }
    """
    kinds, broken = EXPERIMENTS.working()
    warn_broken(broken)
    described = [_described(kind) for kind in kinds.values()]
    if form is Format.JSONL:
        print_json(described)
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("experiment", no_wrap=True)  # a name is copied into a suite
    for column in ("what it measures", "parameter", "default"):
        table.add_column(column, overflow="fold")
    for one in described:
        first = (one["experiment"], f"{one['title']}. {one['about']}")
        for name, default in one["parameters"].items() or [("none", "")]:
            table.add_row(*first, name, json.dumps(default) if default != "" else "")
            first = ("", "")
    stdout_console().print(table)


def _described(kind: type[Experiment]) -> dict[str, Any]:
    about = (kind.__doc__ or "").strip().split("\n\n")[0]
    return {
        "experiment": kind.name,
        "title": kind.title,
        "about": " ".join(about.split()),
        "changes_rows": kind.mutates,
        "parameters": {
            name: _default(field.get_default(call_default_factory=True))
            for name, field in kind.model_fields.items()
        },
    }


def _default(value: Any) -> Any:
    return None if value is PydanticUndefined else value
