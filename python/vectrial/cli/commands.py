"""The commands of `vectrial`, in the order of its help; each imports its module when it runs."""

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
from vectrial.util.plugins import Plugins, not_installed
from vectrial.util.program import fast_loading


class LazyCommand(TyperCommand):
    """A command whose module is not imported yet. place: "module:function"."""

    def __init__(self, name: str, place: str) -> None:
        self.module, _, self.function = place.partition(":")
        super().__init__(name, help=_summary(self.module, self.function))

    def load(self) -> TyperCommand:
        """Import the module and return the command."""
        # A library may take an interruption of its import for a missing dependency.
        with interrupts.end_at_once(), fast_loading():
            load_without_pandas()
            imported = import_module(self.module)
        alone = typer.Typer(
            add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
        )
        run = getattr(imported, self.function)
        alone.command(self.name, help=unwrap(run.__doc__ or ""))(run)
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


def _summary(module: str, function: str) -> str:
    """The first paragraph of a function's docstring, without importing the module; empty if there
    is none."""
    found = re.search(
        rf'^def {function}\(.*?"""(.+?)(?:\n\n|""")', _source(module), re.DOTALL | re.MULTILINE
    )
    return " ".join(found[1].split()) if found else ""


def _source(module: str) -> str:
    """The source of a module, without importing it; empty if there is none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def unwrap(text: str) -> str:
    """Help text with one line per paragraph, which the terminal wraps. Blocks that begin with
    ``\\b``, such as examples, keep their lines."""

    def block(paragraph: str) -> str:
        if paragraph.startswith("\b\n"):
            return paragraph.removeprefix("\b\n")
        return paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")

    return "\n\n".join(map(block, inspect.cleandoc(text).split("\n\n")))


#: Commands that other packages bring: a function as `typer` takes it, by "module:function". `NAME`
#: is a command of `vectrial`, `GROUP.NAME` of one of its groups; the docstring of its module is the
#: help of a group that nobody else has.
COMMANDS: Plugins[object] = Plugins("vectrial.commands", "command", lambda _, found: found)

#: Packages that bring commands, or groups of them, which Vectrial's docs name.
_BROUGHT_BY = {
    "data.pictures": "vectrial-datasets",
    "ray": "vectrial-ray",
    "reproduce": "vectrial-reproduce",
    "serve": "vectrial-web",
    "site": "vectrial-web",
}
#: The help of a plug-in's command or group that is damaged.
_BROKEN = "It cannot be imported."

_DATA_HELP = (
    "List, fetch, import and inspect datasets."
    "\n\nExit codes: 0 success, 1 cancelled at a prompt, 2 invalid input."
)


class PluginCommand(LazyCommand):
    """A command of a plug-in. entry: the name of its entry point."""

    def __init__(self, name: str, entry: str) -> None:
        self._entry = entry
        try:
            super().__init__(name, COMMANDS.target(entry))
        except (ImportError, OSError, UnicodeDecodeError):
            super(LazyCommand, self).__init__(name, help=_BROKEN)

    def load(self) -> TyperCommand:
        """Import the module and return the command.

        Raises:
            PluginError: it cannot be imported, or has no such function.
        """
        COMMANDS.load(self._entry)
        return super().load()


class LazyGroup(TyperGroup):
    """A group of lazy commands. A subclass lists them by name as `places` in `vectrial.cli`.
    Plug-ins bring more: they are searched only when needed, since that reads the metadata of all
    packages."""

    places: ClassVar[Mapping[str, str]]
    #: The name of the group, which precedes those of its commands: "data" in "data.pictures".
    group: str = ""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, place in self.places.items():
            self.add_command(LazyCommand(name, f"vectrial.cli.{place}"))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        self._plug_in()
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none."""
        if cmd_name not in self.commands:
            self._plug_in()
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The imported command that the arguments name.

        Raises:
            UserError: a package that is not installed brings it.
        """
        words = (self.group, args[0]) if self.group else (args[0],)
        package = _BROUGHT_BY.get(".".join(words))
        if package is not None and self.get_command(ctx, args[0]) is None:
            raise not_installed(" ".join(words), "command", package)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest

    def _plug_in(self) -> None:
        """Add the commands that plug-ins bring to this group."""
        for entry in COMMANDS:
            group, _, name = entry.rpartition(".")
            if group == self.group and name not in self.commands:
                self.add_command(PluginCommand(name, entry))


class DataCommands(LazyGroup):
    """The commands of `vectrial data`."""

    group = "data"
    places: ClassVar = {
        "import": "data:import_",
        "inspect": "data:inspect",
        "truth": "data:truth",
        "list": "data_catalog:list_datasets",
        "fetch": "data_catalog:fetch",
        "remove": "data_catalog:remove",
    }


class PluginGroup(LazyGroup):
    """A group of a plug-in's commands. module: the module whose docstring is its help."""

    places: ClassVar = {}

    def __init__(self, name: str, module: str) -> None:
        self.group = name
        try:
            found = re.match(r'"""(.+?)"""', _source(module), re.DOTALL)
            text = unwrap(found[1]) if found else ""
        except (ImportError, OSError, UnicodeDecodeError):
            text = _BROKEN
        super().__init__(name=name, help=text, no_args_is_help=True, rich_markup_mode="rich")


class Commands(LazyGroup):
    """The commands of `vectrial`, the group `data`, and the commands and groups of plug-ins."""

    places: ClassVar = {
        "quick": "quick:quick",
        "init": "init:init",
        "run": "run:run",
        "capacity": "capacity:capacity",
        "tune": "tune:tune",
        "fit": "fit:fit",
        "report": "report:report",
        "compare": "compare:compare",
        "forecast": "forecast:forecast",
        "bundle": "bundle:bundle",
        "note": "note:note",
        "experiments": "experiments:experiments",
        "stores": "stores:stores",
        "conformance": "conformance:conformance",
        "up": "up:up",
        "down": "up:down",
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        data = DataCommands(
            name="data", help=_DATA_HELP, no_args_is_help=True, rich_markup_mode="rich"
        )
        self.add_command(data)

    def _plug_in(self) -> None:
        """Add the commands, and the groups, that plug-ins bring."""
        super()._plug_in()
        for entry in COMMANDS:
            group = entry.rpartition(".")[0]
            if group and group not in self.commands:
                self.add_command(PluginGroup(group, COMMANDS.module(entry)))
