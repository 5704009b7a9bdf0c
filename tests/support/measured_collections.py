"""Collections that somebody else made, read and gated as a run does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from quick_servers import quick_servers

from vectrial._engine import Judge
from vectrial.datasets.truth import truth_of
from vectrial.gate import ExpectedRows, Subject, run_gate
from vectrial.model.context import fields_of
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store
from vectrial.run.existing import ExistingCollection, describe, index_of, read_rows
from vectrial.servers.provide import make_server, recipe_of
from vectrial.stores import registry
from vectrial.stores.attached import keys_of, open_existing, without_own_ids
from vectrial.testing.server_programs import require_startable

ROWS, DIM, K = 3_000, 16, 10
RNG = np.random.default_rng(3)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)


def served(name: str, folder: Path) -> Iterator[Address]:
    """The address of a server of this store, which runs while the iterator is held."""
    recipe = recipe_of(registry.load(name))
    assert recipe is not None
    require_startable(recipe)
    with quick_servers(), make_server(recipe, folder, allow_exposed=True) as server:
        yield server.address


def measured(
    name: str,
    address: Address,
    existing: Existing,
    metric: Metric | None = None,
    columns: Sequence[str] = (),
) -> tuple[ExistingCollection, Description, Dataset]:
    """What is found and read of a collection; its gate has passed."""
    reading = ExistingCollection(registry.load(name), address, existing, columns, metric, 40)
    found = describe(reading)
    dataset = read_rows(reading, found)
    with closing(opened(reading, found, dataset)) as store:
        faults = faults_of(store, without_own_ids(dataset))
    assert not faults, faults
    return reading, found, dataset


def refused(name: str, address: Address, existing: Existing, words: str) -> None:
    """The collection is refused in one line, which has these words, before a row is read."""
    with pytest.raises(UserError, match=words) as told:
        describe(ExistingCollection(registry.load(name), address, existing))
    assert "\n" not in str(told.value)


def opened(reading: ExistingCollection, found: Description, dataset: Dataset) -> Store:
    """The store, attached to the collection."""
    schema = Schema(found.dim, dataset.metric, fields_of(without_own_ids(dataset)))
    index = index_of(reading.store, found)
    return open_existing(
        reading.store, Path(), reading.address, reading.existing, schema, index, keys_of(dataset)
    )


def faults_of(store: Store, rows: Dataset) -> list[str]:
    truth = truth_of(rows, K)
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    subject = Subject(
        store=store,
        make=lambda _: pytest.fail("nothing is made beside"),
        schema=store._schema,
        index=store._index,
        rows=ExpectedRows(rows.ids, rows.vectors, rows.metadata),
        queries=rows.queries,
        judge=judge,
        k=K,
        read_only=True,
    )
    results = run_gate(subject, Path("never-made"))
    return [f"{r.name}: {r.detail}" for r in results if r.passed is False or r.raised]
