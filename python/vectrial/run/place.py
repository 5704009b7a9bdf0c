"""Where a run is measured: on this machine, or at a place that a package brings.

A package registers a subclass of `Place` by an entry point in the group `vectrial.places`. Its name
is what `--on` begins with: see `vectrial.util.plugins`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from vectrial.datasets.exact import Scanner, scan_here
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.progress import LineProgress
from vectrial.run.runner import Executor, run_here
from vectrial.util.plugins import Plugins, not_installed

#: This machine, as a place.
HERE = "here"

#: Packages that bring places which Vectrial's docs name.
_BROUGHT_BY = {"ray": "vectrial-ray"}


@dataclass(frozen=True)
class Machines:
    """The machines of a place, ready to measure. execute: measures jobs there. environment: facts
    about the machines; None for this machine."""

    execute: Executor = run_here
    environment: Mapping[str, Any] | None = None


class Place(ABC):
    """A place where jobs are measured and exact neighbours are found. Its methods get the text that
    names it: its entry point's name, or NAME://ADDRESS.

    forms: the texts that can name it, for messages.
    """

    forms: ClassVar[str]

    @abstractmethod
    def machines(self, on: str, folder: Path | None) -> AbstractContextManager[Machines]:
        """The machines of the place named `on`, while the context lasts.

        folder: the run's folder, which may exist already.

        Raises:
            UserError: the text names no place (see `no_place`), or the place cannot be used.
        """

    @abstractmethod
    def scanner(
        self, on: str, dataset: Dataset, note: LineProgress
    ) -> AbstractContextManager[Scanner]:
        """A scanner that finds exact neighbours among a dataset's rows at the place named `on`,
        while the context lasts.

        Raises:
            UserError: see `machines`.
        """


def _made(name: str, found: object) -> Place:
    if not (isinstance(found, type) and issubclass(found, Place)):
        raise ValueError("is not a subclass of vectrial.run.place.Place")
    return found()


#: Every registered place beside this machine, by name.
PLACES: Plugins[Place] = Plugins("vectrial.places", "place", _made)


def machines_at(on: str, folder: Path | None = None) -> AbstractContextManager[Machines]:
    """The machines of the place with this name: "here", "ray" or "ray://HOST:PORT".

    folder: the run's folder, which may exist already.

    Raises:
        UserError: there is no such place, or it cannot be used.
    """
    return nullcontext(Machines()) if on == HERE else _place(on).machines(on, folder)


def scanner_at(on: str, dataset: Dataset, note: LineProgress) -> AbstractContextManager[Scanner]:
    """A scanner that finds exact neighbours among a dataset's rows at the place with this name.

    Raises:
        UserError: see `machines_at`.
    """
    return nullcontext(scan_here) if on == HERE else _place(on).scanner(on, dataset, note)


def no_place(on: str) -> UserError:
    """The error of a text that names no place, with the texts that do."""
    places, _ = PLACES.working()
    forms = [HERE, *(place.forms for place in places.values())]
    forms += [f"{name} with the package {_BROUGHT_BY[name]}" for name in _lacking()]
    return UserError(f"'{on}' is no place to run on", where="--on", remedy=", ".join(forms))


def _place(on: str) -> Place:
    name = on.partition("://")[0]
    if name in _lacking():
        raise not_installed(name, "place", _BROUGHT_BY[name], where="--on")
    if name not in PLACES:
        raise no_place(on)
    return PLACES[name]


def _lacking() -> list[str]:
    """Names of places whose packages are not installed."""
    return [name for name in _BROUGHT_BY if name not in PLACES]
