"""Values as texts of a command line, and what else the commands that answer a question share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from vectrial.analysis import interference
from vectrial.analysis.run_data import RunData
from vectrial.cli.output import say
from vectrial.model.errors import UserError
from vectrial.workload.record import ERROR_SHARE

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


def parameter_text(params: Mapping[str, Any]) -> str:
    """Parameters as `name=value name=value`."""
    return " ".join(f"{name}={value}" for name, value in params.items())


def warn_interference(run: RunData, console: Console) -> None:
    """Print what else affected the measurement besides the store."""
    for text in interference.sentences(run):
        say(console, f"! {text}")
