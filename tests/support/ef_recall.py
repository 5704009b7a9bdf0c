"""That `ef_search` decides the recall of a store, which shows that its graph answers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from vectrial.model.capabilities import Index
from vectrial.model.metric import Metric, distances
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store
from vectrial.servers.provide import recipe_of, server_address
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of
from vectrial.testing.server_programs import no_program

ROWS, DIM, K = 5_000, 64, 10


def made(store: type[Store], location: Path, address: Address | None) -> Store:
    return store(location) if address is None else store(location, address)


def check_ef_search(name: str, build: dict[str, int], folder: Path) -> None:
    """Fewer candidates find fewer neighbours. build: parameters of the index "hnsw"."""
    store_class = registry.load(name)
    available = registry.availability(store_class)
    if available.works is False:
        recipe = recipe_of(store_class)
        if recipe is None:
            pytest.skip(f"{name}: {available.reason}")
        no_program(recipe, available.reason)
    kind = store_class.capabilities.indexes["hnsw"]
    rng = np.random.default_rng(4)
    # Uniform directions are hard for a graph, which is what makes the difference visible.
    vectors = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    queries = rng.normal(size=(40, DIM)).astype(np.float32)
    nearest = [set(np.argsort(distances(q, vectors, Metric.L2))[:K].tolist()) for q in queries]
    schema = Schema(DIM, Metric.L2)
    server = server_address(store_class, folder / "server")
    with server as address, closing(made(store_class, folder, address)) as store:
        store.create(schema, Index("hnsw", kind.build.model_validate(build)))
        for start in range(0, ROWS, 1_000):
            ids = np.arange(start, start + 1_000, dtype=np.int64)
            store.insert(batch_of(schema, ids, vectors[ids], {}))
        store.flush()
        store.build()
        assert store.wait_indexed()

        def recall(ef: int) -> float:
            search = store.searcher(K, kind.search.model_validate({"ef_search": ef}))
            found = [set(search(query)[0].tolist()) for query in queries]
            return float(np.mean([len(f & n) / K for f, n in zip(found, nearest, strict=True)]))

        few, many = recall(K), recall(800)
    assert few < 0.95
    assert many > few + 0.04
