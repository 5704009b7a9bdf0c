"""Command groups that import a command's module only when that command runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from vectrial.util import interrupts
from vectrial.util.arrow import load_without_pandas
from vectrial.util.program import loading


class LazyCommand(TyperCommand):
    """A command whose module is not imported yet. place: "module:function"."""

    def __init__(self, name: str, place: str) -> None:
        self.module, _, self.function = place.partition(":")
        super().__init__(name, help=_summary(self.module, self.function))

    def load(self) -> TyperCommand:
        """Import the module and return the command."""
        # A library may take an interruption of its import for a missing dependency.
        with interrupts.at_once(), loading():
            load_without_pandas()
            imported = import_module(self.module)
        alone = typer.Typer(
            add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
        )
        run = getattr(imported, self.function)
        alone.command(self.name, help=unwrapped(run.__doc__ or ""))(run)
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


def _summary(module: str, function: str) -> str:
    """The first paragraph of a function's docstring, without importing the module; empty if there
    is none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    source = Path(spec.origin).read_text(encoding="utf-8")
    found = re.search(
        rf'^def {function}\(.*?"""(.+?)(?:\n\n|""")', source, re.DOTALL | re.MULTILINE
    )
    return " ".join(found[1].split()) if found else ""


def unwrapped(text: str) -> str:
    """Help text with one line per paragraph, which the terminal wraps. Blocks that begin with
    ``\\b``, such as examples, keep their lines."""

    def block(paragraph: str) -> str:
        if paragraph.startswith("\b\n"):
            return paragraph.removeprefix("\b\n")
        return paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")

    return "\n\n".join(map(block, inspect.cleandoc(text).split("\n\n")))


class LazyGroup(TyperGroup):
    """A group of lazy commands. A subclass lists them by name as `places` in `vectrial.cli`."""

    places: ClassVar[Mapping[str, str]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, place in self.places.items():
            self.add_command(LazyCommand(name, f"vectrial.cli.{place}"))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The imported command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
