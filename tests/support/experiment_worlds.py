"""A loaded embedded store and the context that an experiment gets, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.truth import truth_of
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Index
from vectrial.model.context import Context, Data, fields_of
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import Unsupported
from vectrial.model.lane import Lane
from vectrial.model.metric import Metric
from vectrial.model.objects import ObjectsAccess, ObjectsKind, ObjectsRequest
from vectrial.model.phase import Phase, State
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.temporary import temporary_store
from vectrial.stores.memory import MemoryStore
from vectrial.telemetry.disk import store_bytes_by_kind
from vectrial.workload import ingest

ROWS, DIM, K = 600, 8, 10
#: Vectrial's own experiments that a store in this process can be asked for.
EMBEDDED = [
    name
    for name, kind in EXPERIMENTS.items()
    if EXPERIMENTS.package(name) == "vectrial"
    and (kind.lanes is None or Lane.EMBEDDED in kind.lanes)
]


def dataset(rows: int = ROWS) -> Dataset:
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((12, DIM))
    vectors = centres[rng.integers(0, 12, rows + 30)] + 0.3 * rng.standard_normal((rows + 30, DIM))
    every = np.ascontiguousarray(vectors, dtype=np.float32)
    return Dataset(
        "made",
        Metric.L2,
        every[:rows],
        5 + 3 * rng.permutation(rows).astype(np.int64),
        every[rows:],
        "made",
        Provenance("made", "none", "none"),
    )


@contextmanager
def world(
    kind: type[Store], index: str, folder: Path, state: State, given: Dataset | None = None
) -> Iterator[Context]:
    """The context of an experiment that starts from `state`, on a store of this kind. given: the
    dataset; unless it is, one without metadata."""
    rows = given or dataset()
    schema = Schema(rows.dim, rows.metric, fields_of(rows))
    asked = Index(index, kind.capabilities.indexes[index].build())
    with temporary_store(kind, folder / "data") as store:
        empty = store_bytes_by_kind(kind, [folder / "data"])
        if state is State.LOADED:
            store.create(schema, asked)
            ingest.load(store, rows, schema, 100, lambda *_: None)
            ingest.finish(store, lambda *_: None)
        yield Context(
            store=store,
            lane=Lane.EMBEDDED,
            certificate=Certificate(ClientLimits(), Placement(), {}),
            dataset=rows,
            schema=schema,
            index=asked,
            k=K,
            seed=1,
            batch_rows=100,
            progress=lambda *_: None,
            show=lambda _: None,
            truth=lambda k, where: truth_of(rows, k, where),
            data_dirs=(folder / "data",),
            resident_bytes=lambda: None,
            baseline_rss_bytes=None,
            second_store=lambda name: temporary_store(kind, folder / "beside" / name),
            empty_disk=empty,
            objects=lambda request: _objects(request, folder / "objects"),
        )


@contextmanager
def _objects(request: ObjectsRequest, folder: Path) -> Iterator[ObjectsAccess]:
    if request.kind is not ObjectsKind.FOLDER:
        raise Unsupported("there is no server here")
    yield ObjectsAccess(folder=folder)


def run(
    experiment: Experiment,
    kind: type[Store],
    folder: Path,
    index: str = "flat",
    given: Dataset | None = None,
) -> list[Phase]:
    """Every phase of the experiment's last point."""
    experiment = experiment.resolve(target(kind, index_of(kind, index)).data)
    point: Mapping[str, Any] = experiment.points(target(kind, index_of(kind, index)))[-1]
    with world(kind, index, folder, type(experiment).starts_from, given) as context:
        return list(experiment.run(context, point))


def target(
    kind: type[Store], index: Index, data: Data | int = ROWS, lane: Lane = Lane.EMBEDDED
) -> Target:
    """The store with this index and these data; of a number, so many rows without metadata."""
    if isinstance(data, int):
        data = Data(Schema(DIM, Metric.L2), data)
    return Target(kind, index, data, lane)


def index_of(kind: type[Store], index: str) -> Index:
    """An index of this kind with its defaults."""
    return Index(index, kind.capabilities.indexes[index].build())


def without(kind: type[Store], **lacking: Any) -> type[Store]:
    """The same store, declaring that it cannot do some things."""
    return type(kind.__name__, (kind,), {"capabilities": replace(kind.capabilities, **lacking)})


def by_name(phases: list[Phase]) -> dict[str, Phase]:
    return {phase.name: phase for phase in phases}


class Immortal(MemoryStore):
    """Acknowledges deletes and keeps the rows."""

    def delete(self, ids: NDArray[np.int64]) -> None:
        pass


class Frozen(MemoryStore):
    """Acknowledges updates and keeps the old vectors."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        pass


class Refusing(MemoryStore):
    """Takes no new rows."""

    def insert(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 1:
            raise RuntimeError("full")
        super().insert(batch)
