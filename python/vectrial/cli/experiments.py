"""`vectrial experiments`: the experiments with their parameters."""

from __future__ import annotations

import json
from typing import Any

from rich.padding import Padding

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
        experiment = "search"
        search = { ef_search = [16, 64] }
    """
    kinds, broken = EXPERIMENTS.working()
    warn_broken(broken)
    described = [_experiment_object(kind) for kind in kinds.values()]
    if form is Format.JSONL:
        print_json(described)
        return
    console = stdout_console()
    for one in described:
        console.print(f"{one['experiment']}: {one['title']}", style="bold")
        values = [f"{name} = {json.dumps(value)}" for name, value in one["parameters"].items()]
        for text in (one["about"], f"Parameters: {', '.join(values) or 'none'}"):
            console.print(Padding(text, (0, 0, 0, 4)))


def _experiment_object(kind: type[Experiment]) -> dict[str, Any]:
    return {
        "experiment": kind.name,
        "title": kind.title,
        "about": kind.summary(),
        "changes_rows": kind.mutates,
        "parameters": kind.defaults(),
    }
