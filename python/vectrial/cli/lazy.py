"""Command groups that import a command's module only when that command runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from vectrial.util import interrupts


class Target(NamedTuple):
    """The definition of a command.

    place: "module:function", the module within `vectrial.cli`.
    summary: the first paragraph of the function's docstring, on one line.
    """

    place: str
    summary: str


class LazyCommand(TyperCommand):
    """A command whose module is not imported yet."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, help=target.summary)
        self.target = target

    def load(self) -> TyperCommand:
        """Import the module and return the command."""
        module, _, function = self.target.place.partition(":")
        # A library may take an interruption of its import for a missing dependency.
        with interrupts.at_once():
            imported = import_module(f"vectrial.cli.{module}")
        alone = typer.Typer(
            add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
        )
        run = getattr(imported, function)
        alone.command(self.name, help=unwrapped(run.__doc__ or ""))(run)
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


def unwrapped(text: str) -> str:
    """Help text with one line per paragraph, which the terminal wraps. Blocks that begin with
    ``\\b``, such as examples, keep their lines."""

    def block(paragraph: str) -> str:
        if paragraph.startswith("\b\n"):
            return paragraph.removeprefix("\b\n")
        return paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")

    return "\n\n".join(map(block, inspect.cleandoc(text).split("\n\n")))


class LazyGroup(TyperGroup):
    """A group of lazy commands, which a subclass lists as `targets` by name."""

    targets: ClassVar[Mapping[str, Target]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, target in self.targets.items():
            self.add_command(LazyCommand(name, target))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
