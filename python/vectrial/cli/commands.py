"""The commands of `vectrial`, in the order of its help."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperCommand

from vectrial.cli.lazy import LazyCommand, LazyGroup
from vectrial.model.errors import UserError
from vectrial.util.plugins import Plugins

_DATA_HELP = (
    "List, fetch, import and inspect datasets."
    "\n\nExit codes: 0 success, 1 cancelled at a prompt, 2 invalid input."
)

#: Commands that other packages bring: a function as `typer` takes it, by "module:function".
COMMANDS: Plugins[object] = Plugins("vectrial.commands", "command", lambda _, found: found)

#: Packages that bring commands which Vectrial's docs name.
_BROUGHT_BY = {"reproduce": "vectrial-reproduce", "serve": "vectrial-web", "site": "vectrial-web"}

_RAY_HELP = (
    "Look at a Ray cluster before something is measured on it (`vectrial run --on ray`)."
    "\n\nExit codes: 0 fit, 1 not fit, 2 it cannot be used."
)


class DataCommands(LazyGroup):
    """The commands of `vectrial data`."""

    places: ClassVar = {
        "import": "data:import_",
        "inspect": "data:inspect",
        "truth": "data:truth",
        "list": "data_catalog:list_datasets",
        "fetch": "data_catalog:fetch",
        "pictures": "data:pictures",
        "remove": "data_catalog:remove",
    }


class RayCommands(LazyGroup):
    """The commands of `vectrial ray`."""

    places: ClassVar = {"check": "ray_cluster:check"}


class PluginCommand(LazyCommand):
    """A command of a plug-in."""

    def __init__(self, name: str) -> None:
        try:
            super().__init__(name, COMMANDS.target(name))
        except (ImportError, OSError, UnicodeDecodeError):
            super(LazyCommand, self).__init__(name, help="It cannot be imported.")

    def load(self) -> TyperCommand:
        """Import the module and return the command.

        Raises:
            PluginError: it cannot be imported, or has no such function.
        """
        COMMANDS.load(self.name or "")
        return super().load()


class Commands(LazyGroup):
    """The commands of `vectrial`, the groups `data` and `ray`, and the commands of plug-ins.
    Plug-ins are searched only when needed, since that reads the metadata of all packages."""

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
        ray = RayCommands(name="ray", help=_RAY_HELP, no_args_is_help=True, rich_markup_mode="rich")
        self.add_command(data)
        self.add_command(ray)

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
        package = _BROUGHT_BY.get(args[0])
        if package is not None and self.get_command(ctx, args[0]) is None:
            raise UserError(
                f"'{args[0]}' is a command of the package {package}, which is not installed",
                remedy=f"pip install {package}",
            )
        return super().resolve_command(ctx, args)

    def _plug_in(self) -> None:
        for name in COMMANDS:
            if name not in self.commands:
                self.add_command(PluginCommand(name))
