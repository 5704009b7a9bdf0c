"""What a run that is started from a page can be made of: suites, stores, datasets, experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vectrial.datasets import catalog, library
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import VectrialError
from vectrial.results.folder import is_own
from vectrial.stores import registry
from vectrial.suite import shipped


@dataclass(frozen=True)
class StoreChoice:
    """A store in the form. indexes: kinds of its indexes, the default first. works: False if it
    does not work, with the reason; None if its first use prepares something, with what that is."""

    name: str
    indexes: tuple[str, ...]
    works: bool | None
    reason: str


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment. parameters: with their defaults, as in a suite."""

    name: str
    title: str
    about: str
    parameters: tuple[str, ...]


def suites(root: Path) -> dict[str, Path]:
    """Suite files by their names in a form: first the suites in the folder served, newest first,
    then the shipped ones. Links that lead out of their folder are left out."""
    own = [path for path in root.glob("*.toml") if is_own(root, path)]
    own.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    with_vectrial = {f"suites/{path.name}": path for path in shipped.files().values()}
    return {path.name: path for path in own} | with_vectrial


def stores() -> list[StoreChoice]:
    """Every store: first the stores that work here, then those that prepare something on first use,
    then those that do not work."""
    order = (True, None, False)
    found = [_store(name) for name in registry.names()]
    return sorted(found, key=lambda one: (order.index(one.works), one.name))


def _store(name: str) -> StoreChoice:
    try:
        store = registry.load(name)
        available = registry.availability(store)
    except VectrialError as error:  # a broken plug-in, or a variable that makes no sense
        return StoreChoice(name, (), False, str(error))
    can = store.capabilities
    default = can.preferred_index()
    indexes = (default, *(label for label in can.indexes if label != default))
    return StoreChoice(name, indexes, available.works, available.reason)


def experiments() -> list[ExperimentChoice]:
    """Every experiment that can be loaded."""
    kinds, _ = EXPERIMENTS.working()
    return [
        ExperimentChoice(kind.name, kind.title, kind.summary(), _parameters(kind.defaults()))
        for kind in kinds.values()
    ]


def _parameters(defaults: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name} = {json.dumps(value, default=str)}" for name, value in defaults.items())


def datasets() -> dict[str, str]:
    """Datasets by name with a short description, those of the library first."""
    here = library.names()
    found = dict.fromkeys(sorted(here), "in the library")
    for entry in catalog.entries():
        if entry.name not in here:
            size = f", {entry.cost.download_mb:,.0f} MB to fetch" if entry.cost.download_mb else ""
            found[entry.name] = f"{entry.rows:,} × {entry.dim}{size}"
    return found
