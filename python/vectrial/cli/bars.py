"""Progress of long work as bars on stderr, so that stdout holds results only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)

from vectrial.cli.form import on_stderr
from vectrial.model.progress import Progress


@contextmanager
def bars() -> Iterator[Progress]:
    """A `Progress` that draws one bar per kind of work; nothing where stderr is no terminal."""
    console = on_stderr()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(done: float, of: float, what: str) -> None:
            if what not in tasks:
                for task in tasks.values():
                    shown.update(task, visible=False)
                tasks[what] = shown.add_task(what, total=of or None)
            shown.update(tasks[what], completed=done, total=of or None, visible=True)

        yield tell
