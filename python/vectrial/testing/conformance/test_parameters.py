"""Checks that every parameter has an effect: the index is built and searched as the suite asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vectrial.model.capabilities import Index, Params, bounds
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.temporary import close_store
from vectrial.testing.conformance.cases import each_index_of_a_library
from vectrial.testing.conformance.world import (
    DIM,
    ROWS,
    Case,
    K,
    World,
    folder,
    make_world,
)

#: Values far apart, of parameters that decide what an index finds.
_BUILD = {
    "m": (4, 48),
    "ef_construction": (8, 400),
    "nlist": (1, 64),
    "nbits": (4, 8),
    "m_pq": (2, 12),
}
_SEARCH = {"ef_search": (K, 400), "nprobe": (1, 64)}
#: Parameters set together with each: a graph of many links needs as many candidates, and one of
#: few candidates has as few links.
_WITH = {"m": {"ef_construction": 200}, "ef_construction": {"m": 8}}
#: Parameters set in all cases: the least data that are searched by a graph and not scanned.
_ALWAYS = {"full_scan_threshold_kb": 10}
#: Parameters of an index in which a search of little effort misses rows.
_POOR = {"m": 4, "ef_construction": 8, "nlist": 64}
#: Difference of recall, and of bytes, that is an effect.
_RECALL, _BYTES = 0.01, 0.02


@each_index_of_a_library
def test_every_parameter_has_an_effect(case: Case, tmp_path: Path) -> None:
    world = hard_world(case.metric)
    for name, (low, high) in of(case.kind.build, _BUILD).items():
        also = parameters_of(case.kind.build, _ALWAYS | _WITH.get(name, {}))
        few = recall_and_bytes(case, world, {**also, name: low}, folder(tmp_path, f"{name}-low"))
        many = recall_and_bytes(case, world, {**also, name: high}, folder(tmp_path, f"{name}-high"))
        told = f"{name} of {low} and {high}: recall and bytes are {few} and {many}"
        same_size = abs(few[1] - many[1]) <= _BYTES * max(few[1], many[1])
        assert abs(few[0] - many[0]) >= _RECALL or not same_size, told


def hard_world(metric: Metric) -> World:
    """Rows in all directions, which are hard for an index, so that effort makes a difference."""
    world = make_world(Schema(DIM, metric), False, rows=ROWS, first_id=0, seed=4)
    vectors = np.random.default_rng(4).normal(size=world.vectors.shape).astype(np.float32)
    return replace(world, vectors=vectors)


def of(model: type[Params], ends: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The parameters of a model that have ends, each with values that the model accepts."""
    found = {}
    for name, (low, high) in ends.items():
        if name in model.model_fields:
            least, most = bounds(model.model_fields[name].metadata)
            found[name] = int(max(low, least or low)), int(min(high, most or high))
    return found


def parameters_of(model: type[Params], values: Mapping[str, int]) -> dict[str, int]:
    """The entries of `values` that are parameters of the model."""
    return {name: value for name, value in values.items() if name in model.model_fields}


def recall_and_bytes(
    case: Case, world: World, params: Mapping[str, Any], at: Path
) -> tuple[float, int]:
    """Recall at the least effort, and size in bytes, of an index built with these parameters. The
    size is 0 for a server, whose files are elsewhere."""
    try:
        index = Index(case.index, case.kind.build.model_validate(params))
    except ValueError as error:
        pytest.fail(f"{params}: {error}")
    store = case.make(at)
    try:
        fill(store, world, index)
        size = (
            0 if case.store.server else sum(f.stat().st_size for f in at.rglob("*") if f.is_file())
        )
        return recall(store.searcher(K, effort(case, least=True)), world), size
    finally:
        close_store(store)


def fill(store: Store, world: World, index: Index) -> None:
    """Create an index, write the rows in batches, and wait until everything is indexed."""
    store.create(world.schema, index)
    for batch in world.batches():
        store.insert(batch)
    store.flush()
    store.build()
    store.wait_indexed()


def effort(case: Case, *, least: bool) -> Params:
    """Search parameters of least or most effort. Other parameters keep their nearly exact setting,
    so that any loss is due to effort."""
    values = {name: pair[not least] for name, pair in of(case.kind.search, _SEARCH).items()}
    return case.kind.search.model_validate({**case.kind.high_recall_params, **values})


def recall(search: Any, world: World) -> float:
    asked = np.random.default_rng(9).normal(size=(40, DIM)).astype(np.float32)
    return float(
        np.mean(
            [
                len(world.accepted(query, K, None) & set(search(query)[0].tolist())) / K
                for query in asked
            ]
        )
    )


@each_index_of_a_library
def test_every_search_parameter_has_an_effect(case: Case, tmp_path: Path) -> None:
    if not of(case.kind.search, _SEARCH):
        return
    world = hard_world(case.metric)
    poor = parameters_of(case.kind.build, _ALWAYS | _POOR)
    store = case.make(folder(tmp_path, "one"))
    try:
        fill(store, world, Index(case.index, case.kind.build.model_validate(poor)))
        little = recall(store.searcher(K, effort(case, least=True)), world)
        much = recall(store.searcher(K, effort(case, least=False)), world)
        assert much >= little + _RECALL, f"recall {little:.3f} at least effort, {much:.3f} at most"
    finally:
        close_store(store)
