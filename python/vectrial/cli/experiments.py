"""`vectrial experiments`: what can be asked of a store, with every parameter."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticUndefined
from rich.box import SIMPLE_HEAD
from rich.table import Table

from vectrial.cli.form import Form, FormOption, on_stdout, warn_of
from vectrial.experiments.base import Experiment
from vectrial.experiments.registry import EXPERIMENTS


def experiments(
    form: FormOption = Form.TABLE,
) -> None:
    """List the experiments with their parameters and defaults.

        vectrial experiments
        vectrial experiments --format jsonl | jq -c '[.experiment, .parameters]'

    In a suite:

        [\\[experiments]]
        experiment = "recall_sweep"
        search = { ef_search = [16, 64] }
    """
    kinds, broken = EXPERIMENTS.working()
    warn_of(broken)
    if form is Form.JSONL:
        for kind in kinds.values():
            print(json.dumps(_described(kind), ensure_ascii=False))
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("experiment", no_wrap=True)  # a name is copied into a suite
    for column in ("what it measures", "parameter", "default"):
        table.add_column(column, overflow="fold")
    for kind in kinds.values():
        described = _described(kind)
        first = (kind.name, f"{kind.title}. {described['about']}")
        for name, default in described["parameters"].items() or [("none", "")]:
            table.add_row(*first, name, json.dumps(default) if default != "" else "")
            first = ("", "")
    on_stdout().print(table)


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
