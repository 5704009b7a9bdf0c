"""The place where a run is measured: this machine, or the machines of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vectrial.datasets.exact import Scanner, scan_here
from vectrial.model.dataset import Dataset
from vectrial.model.progress import LineProgress
from vectrial.run.runner import Executor, run_here

#: This machine, as a place.
HERE = "here"


@dataclass(frozen=True)
class Place:
    """A place for measurements. execute: measures jobs there. environment: facts about the machines
    there; None for this machine."""

    execute: Executor = run_here
    environment: Mapping[str, Any] | None = None

    @property
    def is_here(self) -> bool:
        """True for this machine."""
        return self.environment is None


@contextmanager
def place(name: str, folder: Path | None = None) -> Iterator[Place]:
    """The place with this name: "here", "ray" or "ray://HOST:PORT".

    folder: the run's folder, which may exist already.

    Raises:
        UserError: there is no such place, or it cannot be used.
    """
    if name == HERE:
        yield Place()
        return
    # Imported here: only those who use a cluster have what it takes.
    from vectrial.run.on_ray.cluster import address_of
    from vectrial.run.on_ray.executor import cluster

    with cluster(address_of(name), folder) as machines:
        yield Place(machines.execute, machines.environment)


@contextmanager
def scanner_at(place_name: str, dataset: Dataset, note: LineProgress) -> Iterator[Scanner]:
    """A scanner that finds exact neighbours among a dataset's rows at the place with this name.

    Raises:
        UserError: see `place`.
    """
    if place_name == HERE:
        yield scan_here
        return
    from vectrial.run.on_ray.cluster import address_of
    from vectrial.run.on_ray.truth import cluster_scanner

    with cluster_scanner(address_of(place_name), dataset, note) as scanner:
        yield scanner
