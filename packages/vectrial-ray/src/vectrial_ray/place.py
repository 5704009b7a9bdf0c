"""The machines of a Ray cluster as a place where a run is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from vectrial.datasets.exact import Scanner
from vectrial.model.dataset import Dataset
from vectrial.model.progress import LineProgress
from vectrial.run.place import Machines, Place
from vectrial_ray.cluster import address_of
from vectrial_ray.executor import cluster
from vectrial_ray.truth import cluster_scanner


class RayPlace(Place):
    """The Ray cluster of this machine, or the one at an address."""

    forms: ClassVar[str] = (
        "ray (the cluster of this machine) or ray://HOST:PORT (its head's, 6379 unless it was"
        " started with another)"
    )

    @contextmanager
    def machines(self, on: str, folder: Path | None) -> Iterator[Machines]:
        with cluster(address_of(on), folder) as found:
            yield Machines(found.execute, found.environment)

    def scanner(
        self, on: str, dataset: Dataset, note: LineProgress
    ) -> AbstractContextManager[Scanner]:
        return cluster_scanner(address_of(on), dataset, note)
