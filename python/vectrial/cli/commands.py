"""The commands of `vectrial`, in the order of its help."""

from __future__ import annotations

from typing import Any, ClassVar

from vectrial.cli.lazy import LazyGroup

_DATA_HELP = (
    "List, fetch, import and inspect datasets."
    "\n\nExit codes: 0 success, 1 cancelled at a prompt, 2 invalid input."
)

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


class Commands(LazyGroup):
    """The commands of `vectrial`, and the groups `data` and `ray`."""

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
        "serve": "serve:serve",
        "site": "site:site",
        "reproduce": "reproduce:reproduce",
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
