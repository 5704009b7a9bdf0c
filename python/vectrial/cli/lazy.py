"""Command groups that import a command's module when that command runs: `--help`, `--version` and
a misspelt command wait for none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from vectrial.util import interrupts


class Target(NamedTuple):
    """Where a command is defined, and its line in the help of its group.

    Args:
        place: "module:function", the module within `vectrial.cli`.
        summary: the first paragraph of the function's docstring, on one line.
    """

    place: str
    summary: str


class LazyCommand(TyperCommand):
    """A command whose module is not imported yet: what its group's help says of it."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, help=target.summary)
        self.target = target

    def load(self) -> TyperCommand:
        """Import the module, and make the command of its function."""
        module, _, function = self.target.place.partition(":")
        # Nothing is to be cleaned up yet, and a library that is being imported may take an
        # interruption for one of its own dependencies missing.
        with interrupts.at_once():
            imported = import_module(f"vectrial.cli.{module}")
        alone = typer.Typer(
            add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
        )
        alone.command(self.name)(getattr(imported, function))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


class LazyGroup(TyperGroup):
    """A group of lazy commands. A subclass lists them as `targets`, by their names; commands that
    are no lazy ones can be added as to any group."""

    targets: ClassVar[Mapping[str, Target]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, target in self.targets.items():
            self.add_command(LazyCommand(name, target))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, imported; it is called where one is run, or its
        options are completed."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
