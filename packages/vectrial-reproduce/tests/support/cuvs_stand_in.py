"""Modules named like those of cuVS 26.10, for machines without a GPU: its driver's calls, answered
by comparing all vectors in NumPy.

Functions take what the functions of the wheel take, by the same names in the same order, and a
graph is read as there: into an index, its vectors into a dataset. So a call that fails here would
fail on a GPU. That the answers are right, or fast, says nothing about cuVS.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

_METRICS = ("sqeuclidean", "cosine", "inner_product")


class DeviceArray:
    """An array "on the GPU": cuVS' calls refuse one of the host where they write."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.array(array)
        self.shape = self.array.shape

    @classmethod
    def empty(
        cls, shape: tuple[int, ...], dtype: Any = np.float32, order: str = "C"
    ) -> DeviceArray:
        return cls(np.zeros(shape, dtype, order))  # type: ignore[call-overload]

    def copy_to_host(self) -> np.ndarray:
        return self.array.copy()


class Dataset:
    """Vectors that were read beside a graph."""

    vectors: np.ndarray | None = None


class Index:
    """Vectors and their metric; not trained until it is filled."""

    trained = False
    vectors: np.ndarray | None = None
    metric = ""
    n_lists = 1

    def fill(self, vectors: np.ndarray | None, metric: str) -> Index:
        assert metric in _METRICS
        self.vectors, self.metric, self.trained = vectors, metric, True
        return self


class Resources:
    """What a search needs besides its arguments."""

    def sync(self) -> None:
        pass


def _answer(
    index: Index, queries: Any, k: int, neighbors: Any, distances: Any, kept: Any, none: int
) -> tuple[Any, Any]:
    if not index.trained:
        raise ValueError("Index needs to be built before calling search.")
    if index.vectors is None:
        raise RuntimeError("the graph has no vectors")
    query, rows = queries.array[0].astype(np.float64), index.vectors.astype(np.float64)
    assert neighbors.array.shape == distances.array.shape == (1, k)
    match index.metric:
        case "sqeuclidean":
            scores = ((rows - query) ** 2).sum(axis=1)
        case "cosine":
            scores = 1 - rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        case _:
            scores = rows @ query
    rank = -scores if index.metric == "inner_product" else scores.copy()
    if kept is not None:
        rank[~kept[: len(rank)]] = np.inf
    nearest = np.argsort(rank, kind="stable")[:k]
    nearest = nearest[rank[nearest] < np.inf]
    neighbors.array[:], distances.array[:] = none, np.inf
    neighbors.array[0, : len(nearest)] = nearest
    distances.array[0, : len(nearest)] = scores[nearest]
    return distances, neighbors


def _save(filename: str, index: Index, include_dataset: bool = True, resources: Any = None) -> None:
    assert index.vectors is not None
    with Path(filename).open("wb") as file:
        np.savez(file, metric=index.metric, vectors=index.vectors)


def _load(filename: str, resources: Any = None) -> Index:
    with np.load(filename) as saved:
        return Index().fill(saved["vectors"], str(saved["metric"]))


def _graph_load(
    index: Index, filename: str, out_dataset: Any = None, resources: Any = None
) -> None:
    stored = _load(filename)
    if out_dataset is not None:
        if not isinstance(out_dataset, Dataset):
            raise TypeError("out_dataset must be a Dataset or None")
        out_dataset.vectors = stored.vectors
    index.fill(None if out_dataset is None else stored.vectors, stored.metric)


def _bits(words: DeviceArray) -> np.ndarray:
    assert words.array.dtype == np.uint32
    return np.unpackbits(words.array.view(np.uint8), bitorder="little").astype(bool)


def _cagra() -> SimpleNamespace:
    def build(index_params: Any, dataset: Any, resources: Any = None) -> Index:
        return Index().fill(dataset.array, index_params.metric)

    def search(
        search_params: Any, index: Index, queries: Any, k: int, neighbors: Any = None,
        distances: Any = None, resources: Any = None, filter: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        assert search_params.itopk_size >= k
        assert neighbors.array.dtype == np.uint32
        return _answer(index, queries, k, neighbors, distances, filter, 2**32 - 1)

    return SimpleNamespace(
        Index=Index,
        IndexParams=lambda *, metric="sqeuclidean", intermediate_graph_degree=128, graph_degree=64,
        build_algo="ivf_pq": SimpleNamespace(metric=metric),
        SearchParams=lambda *, itopk_size=64, search_width=1:
        SimpleNamespace(itopk_size=itopk_size),
        build=build, search=search, save=_save, load=_graph_load,
    )  # fmt: skip


def _ivf_pq() -> SimpleNamespace:
    def build(index_params: Any, dataset: Any, resources: Any = None) -> Index:
        index = Index().fill(dataset, index_params.metric)
        index.n_lists = index_params.n_lists
        return index

    def search(
        search_params: Any, index: Index, queries: Any, k: int, neighbors: Any = None,
        distances: Any = None, resources: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        assert 1 <= search_params.n_probes <= index.n_lists
        assert neighbors.array.dtype == np.int64
        _answer(index, queries, k, neighbors, distances, None, -1)
        for array in (neighbors.array, distances.array):
            array[:] = array[:, ::-1].copy()  # a GPU leaves answers unsorted where k is large
        return distances, neighbors

    return SimpleNamespace(
        IndexParams=lambda *, n_lists=1024, metric="sqeuclidean", pq_bits=8, pq_dim=0:
        SimpleNamespace(metric=metric, n_lists=n_lists),
        SearchParams=lambda *, n_probes=20: SimpleNamespace(n_probes=n_probes),
        build=build, search=search, save=_save, load=_load,
    )  # fmt: skip


def _brute_force() -> SimpleNamespace:
    def build(
        dataset: Any, metric: str = "sqeuclidean", metric_arg: float = 2.0, resources: Any = None
    ) -> Index:
        return Index().fill(dataset.array, metric)

    def search(
        index: Index, queries: Any, k: int, neighbors: Any = None, distances: Any = None,
        resources: Any = None, prefilter: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        assert neighbors.array.dtype == np.int64
        return _answer(index, queries, k, neighbors, distances, prefilter, -1)

    return SimpleNamespace(build=build, search=search, save=_save, load=_load)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `cuvs`, `pylibraft` and `rmm` importable, as these modules."""
    pool = type("CudaAsyncMemoryResource", (), {})
    current: list[Any] = [None]
    modules: dict[str, dict[str, Any]] = {
        "cuvs": {"__version__": "26.10.00"},
        "cuvs.common": {"Dataset": Dataset, "Resources": Resources},
        "cuvs.neighbors": {
            "cagra": _cagra(),
            "ivf_pq": _ivf_pq(),
            "brute_force": _brute_force(),
            "filters": SimpleNamespace(from_bitset=_bits),
        },
        "pylibraft": {},
        "pylibraft.common": {"device_ndarray": DeviceArray},
        "rmm": {
            "mr": SimpleNamespace(
                CudaAsyncMemoryResource=pool,
                get_current_device_resource=lambda: current[0],
                set_current_device_resource=lambda resource: current.__setitem__(0, resource),
            )
        },
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
