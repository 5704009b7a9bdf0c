"""Output of commands: tables, JSON lines, messages and progress bars."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from rich import progress as rich_progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from vectrial.model.errors import PluginError
from vectrial.model.progress import Progress
from vectrial.results.clean import clean_for_display

#: Width of a table that is piped, in columns.
_PIPED = 200


class Format(StrEnum):
    """Output format, for people or for programs."""

    TABLE = "table"
    JSONL = "jsonl"


class CleanConsole(Console):
    """A console that strips control characters from text, such as messages of a server."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments without control characters, except rich's own control segments."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else Segment(clean_for_display(segment.text), segment.style)
            )


def stderr_console() -> Console:
    """The console for progress and messages."""
    return CleanConsole(stderr=True)


def stdout_console(*, markup: bool = False) -> Console:
    """The console for results. Piped tables are 200 columns wide unless COLUMNS is set.

    markup: interpret rich markup; text of stores must then be escaped.
    """
    sized = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    width = None if sized else _PIPED
    return CleanConsole(width=width, markup=markup, emoji=False, highlight=False)


def plain_table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> Table:
    """An empty table without borders.

    right: columns to align right. whole: columns that never wrap.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name in whole,
        )
    return table


def json_line(value: Any) -> str:
    """One line of JSON; bytes of file names that are not valid UTF-8 are escaped."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=str)
    return line


def print_json(values: Iterable[Any]) -> None:
    """Print one JSON object per line on stdout."""
    for value in values:
        print(json_line(value), flush=True)


def say(console: Console, line: str) -> None:
    """Print a line without wrapping and without markup."""
    console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)


def warn_broken(errors: Iterable[PluginError]) -> None:
    """Print a line on stderr for each plug-in that cannot be loaded."""
    for error in errors:
        print(clean_for_display(f"vectrial: {error}"), file=sys.stderr)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """A `Progress` that draws one bar per kind of work on stderr; silent without a terminal."""
    console = stderr_console()
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks: dict[str, rich_progress.TaskID] = {}

        def update(done: float, of: float, what: str) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, visible=False)
                tasks[what] = bars.add_task(what, total=of or None)
            bars.update(tasks[what], completed=done, total=of or None, visible=True)

        yield update
