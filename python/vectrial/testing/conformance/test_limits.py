"""Limits that a store declares are its limits: what the plan lets through is kept, what it refuses
would have failed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.common.temporary import close_store
from vectrial.testing.conformance.cases import each_index, needs
from vectrial.testing.conformance.world import Case, folder


def most_dim(case: Case) -> int | None:
    """Dimensions of the longest vectors that the plan accepts; None if no limit is declared."""
    known = [most for most in (case.capabilities.most_dim, case.kind.most_dim) if most is not None]
    return min(known, default=None)


def a_longest_vector(case: Case) -> str | None:
    if most_dim(case) is not None:
        return None
    return f"{case.store.name} declares no limit of dimensions for '{case.index}'"


def loaded(case: Case, at: Path, rows: int, dim: int) -> tuple[Store, np.ndarray]:
    """A store with `rows` rows of `dim` dimensions, and their vectors."""
    vectors = np.random.default_rng(2).normal(size=(rows, dim)).astype(np.float32)
    store, schema = case.make(at), Schema(dim, case.metric)
    try:
        store.create(schema, case.build)
        store.insert(batch_of(schema, np.arange(rows), vectors, {}))
        store.flush()
        store.build()
        store.wait_indexed()
    except BaseException:
        close_store(store)
        raise
    return store, vectors


@each_index
@needs(a_longest_vector)
def test_the_longest_vectors_are_kept_and_longer_ones_are_not(case: Case, tmp_path: Path) -> None:
    most = most_dim(case)
    assert most is not None
    store, vectors = loaded(case, folder(tmp_path, "most"), 20, most)
    try:
        ids, _ = store.searcher(1, case.kind.nearly_exact(1))(vectors[7])
        assert ids.tolist() == [7]
    finally:
        close_store(store)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a store raises is its answer
        loaded(case, folder(tmp_path, "more"), 20, most + 1)


@needs("most_k")
def test_the_longest_answers_are_given_and_longer_ones_are_not(case: Case, tmp_path: Path) -> None:
    most = case.capabilities.most_k
    assert most is not None
    store, vectors = loaded(case, folder(tmp_path, "one"), most + 1, 4)
    try:
        ids, _ = store.searcher(most, case.kind.nearly_exact(most))(vectors[0])
        assert len(ids) == most
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a store raises is its answer
            store.searcher(most + 1, case.kind.nearly_exact(most + 1))(vectors[0])
    finally:
        close_store(store)
