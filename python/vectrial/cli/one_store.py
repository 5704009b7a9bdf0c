"""Functions of the commands that measure one store on one dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from vectrial.analysis import interference
from vectrial.analysis.run_data import RunData
from vectrial.cli import run as run_command
from vectrial.cli.output import say
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.run.prepare import new_folder, plan_of, toml_of
from vectrial.suite.model import Suite, validated
from vectrial.util.suggest import suggestion
from vectrial.workload.record import ERROR_SHARE

DATASET = "glove-words-50-50k"
ErrorsOption = Annotated[
    float,
    typer.Option(
        min=0, max=ERROR_SHARE, metavar="SHARE", help="Limit on the share of failed requests."
    ),
]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)")
_MS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(text: str, option: str) -> float:
    """A duration with its unit, such as 20ms, in milliseconds.

    Raises:
        UserError: it is not a duration, or 0.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise UserError(
            f"'{text}' is not a duration", where=option, remedy="a number with us, ms or s: 20ms"
        )
    return float(found[1]) * _MS[found[2]]


def parameters(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Parameters from NAME=VALUE texts; numbers and booleans are converted.

    Raises:
        UserError: a text has another form.
    """
    out: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise UserError(f"'{text}' is not a parameter", where=option, remedy="as in m=16")
        out[name.strip()] = _value(value.strip())
    return out


def _value(text: str) -> int | float | bool | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def listed(params: Mapping[str, Any]) -> str:
    """Parameters as `name=value name=value`."""
    return " ".join(f"{name}={value}" for name, value in params.items())


def index_of(store: type[Store], name: str | None) -> str:
    """The kind of index `name`, by default the store's first that trades recall for speed.

    Raises:
        UserError: the store has no such kind.
    """
    kinds = store.capabilities.indexes
    if name is not None and name not in kinds:
        raise UserError(
            f"store '{store.name}' has no index '{name}'",
            where="--index",
            remedy=suggestion(name, kinds),
        )
    return name or store.capabilities.preferred_index()


def suite_of(
    command: str,
    store: type[Store],
    *,
    dataset: str,
    rows: int | None,
    indexes: Sequence[tuple[str, Mapping[str, Any]]],
    lane: str | None,
    k: int,
    repeats: int,
    experiments: Sequence[dict[str, Any]],
    variants: Sequence[str] = (),
) -> Suite:
    """The suite that a command measures: one store on one dataset.

    indexes: kinds of index with their build parameters. variants: names of the store's variants,
        which take turns.
    """
    order = {"order": "turns"} if variants else {}
    own = [{"variant": name} for name in variants] or [{}] * len(indexes)
    lanes = {} if lane is None else {"lane": lane}
    plain: dict[str, Any] = {
        "name": f"{command}-{store.name}",
        "k": k,
        "repeats": repeats,
        **order,
        "datasets": [{"name": dataset, **({} if rows is None else {"rows": rows})}],
        "stores": [
            {"store": store.name, **variant, "index": index, "params": dict(params), **lanes}
            for (index, params), variant in zip(indexes, own, strict=True)
        ],
        "experiments": list(experiments),
    }
    return validated(Suite, plain, f"vectrial {command}")


def measure(suite: Suite, out: Path, console: Console, *, allow_exposed: bool = False) -> Path:
    """Measure a suite into a new run folder; returns the folder.

    Raises:
        UserError: the store supports nothing of it.
    """
    plan = plan_of(suite, suite.name)
    if not plan.jobs:
        raise UserError("; ".join(dict.fromkeys(refusal.reason for refusal in plan.refusals)))
    folder = new_folder(out, suite)
    run_command.measure(plan, suite, toml_of(suite), folder, console, allow_exposed=allow_exposed)
    return folder


def warn_interference(run: RunData, console: Console) -> None:
    """Print what else affected the measurement besides the store."""
    for text in interference.sentences(run):
        say(console, f"! {text}")
