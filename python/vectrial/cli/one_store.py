"""What commands share that measure one store on one dataset."""

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
from vectrial.cli.form import say
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.run.prepare import RUNS, new_folder, plan_of, toml_of
from vectrial.suite.model import Suite, validated
from vectrial.util.suggest import suggestion

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)")
_MS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}

DATASET = "glove-words-50-50k"

DatasetOption = Annotated[
    str, typer.Option(help="A dataset of the library or the catalogue; see `vectrial data list`.")
]
RowsOption = Annotated[
    int | None, typer.Option(min=1, help="Only the first so many rows of it; else all.")
]
IndexOption = Annotated[
    str | None,
    typer.Option(help="The kind of index; else the store's first that trades speed for recall."),
]
LaneOption = Annotated[
    str | None, typer.Option(help="native, sdk or embedded; else the store's default.")
]
P99Option = Annotated[str, typer.Option("--p99", help="Latency limit with its unit, as in 20ms.")]
RecallOption = Annotated[float, typer.Option(min=0, max=1, help="Least mean recall.")]
KOption = Annotated[int, typer.Option("--k", min=1, help="Neighbours asked for.")]
ExposedOption = Annotated[
    bool,
    typer.Option(
        "--allow-exposed",
        help="Start servers that others on the network can reach, where that cannot be prevented.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Where run folders are made.", show_default=str(RUNS)),
]


def milliseconds(written: str, option: str) -> float:
    """A duration with its unit.

    Raises:
        UserError: it is none, or not above 0.
    """
    found = _DURATION.fullmatch(written.strip())
    if found is None or not float(found[1]):
        raise UserError(
            f"'{written}' is not a duration", where=option, remedy="a number with us, ms or s: 20ms"
        )
    return float(found[1]) * _MS[found[2]]


def values(written: Sequence[str], option: str) -> dict[str, Any]:
    """Parameters given as NAME=VALUE, numbers and booleans as such.

    Raises:
        UserError: one is not of that form.
    """
    out: dict[str, Any] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise UserError(f"'{one}' is not a parameter", where=option, remedy="as in m=16")
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


def index_of(store: type[Store], wanted: str | None) -> str:
    """The kind of index asked for, or the first of which recall can be had for speed.

    Raises:
        UserError: the store has no such kind.
    """
    kinds = store.capabilities.indexes
    if wanted is not None and wanted not in kinds:
        raise UserError(
            f"store '{store.name}' has no index '{wanted}'",
            where="--index",
            remedy=suggestion(wanted, kinds),
        )
    return wanted or next((name for name, kind in kinds.items() if kind.dial), next(iter(kinds)))


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
) -> Suite:
    """The suite that a command measures: one store, one dataset.

    indexes: kinds, each with the build parameters that are given.
    """
    through = {} if lane is None else {"lane": lane}
    plain: dict[str, Any] = {
        "name": f"{command}-{store.name}",
        "k": k,
        "repeats": repeats,
        "datasets": [{"name": dataset, **({} if rows is None else {"rows": rows})}],
        "stores": [
            {"store": store.name, "index": index, "params": dict(params), **through}
            for index, params in indexes
        ],
        "experiments": list(experiments),
    }
    return validated(Suite, plain, f"vectrial {command}")


def measure(
    suite: Suite, out: Path | None, console: Console, *, allow_exposed: bool = False
) -> Path:
    """Measure a suite into a new run folder, which is returned.

    Raises:
        UserError: the store cannot do what is asked.
    """
    plan = plan_of(suite, suite.name)
    if not plan.jobs:
        raise UserError("; ".join(dict.fromkeys(refusal.reason for refusal in plan.refusals)))
    folder = new_folder(out, suite)
    text = toml_of(suite)
    run_command.measure(plan, suite, text, folder, console, allow_exposed=allow_exposed)
    return folder


def caution(run: RunData, console: Console) -> None:
    """Say what else than the store was measured, so far as one sees it in the run."""
    for told in interference.said(run):
        say(console, f"! {told}")
