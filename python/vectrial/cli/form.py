"""How what is said leaves a command: lists, tables, lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from vectrial.model.errors import PluginError
from vectrial.results.clean import shown

#: Columns of a table that goes into a pipe.
_PIPED = 200


class Form(StrEnum):
    """For a person, or for a program."""

    TABLE = "table"
    JSONL = "jsonl"


FormOption = Annotated[
    Form, typer.Option("--format", "-f", help="A table, or one JSON object a line to pipe.")
]


class CleanConsole(Console):
    """A terminal that no text steers: what a server said, or a column is called, goes to it without
    the characters that would."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As of any console; its own ways of steering the terminal are no text."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(shown(segment.text), segment.style)


def on_stderr() -> Console:
    """Of what is said besides the result."""
    return CleanConsole(stderr=True)


def on_stdout(*, markup: bool = False) -> Console:
    """Of tables on stdout: into a pipe, lines are as long as they are, unless COLUMNS says how
    long. What a store said is not taken for markup; with `markup` it must be escaped."""
    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    width = None if told else _PIPED
    return CleanConsole(width=width, markup=markup, emoji=False, highlight=False)


def warn_of(broken: Iterable[PluginError]) -> None:
    """A line on stderr for each plug-in that is left out since it cannot be used."""
    for error in broken:
        print(shown(f"vectrial: {error}"), file=sys.stderr)


def say(console: Console, line: str) -> None:
    """A line as it is: not folded, so that what it names can be copied, and not taken for
    markup."""
    console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)
