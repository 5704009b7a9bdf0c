"""Graph indexes of libraries, built and searched without anything around them, by one thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.vectors import Ids, K, Neighbours, Vectors

LEAST_EF, MOST_EF = 10, 1024


@dataclass(frozen=True)
class Graph:
    """An index. set_ef: sets the search parameter. search: ids of the k nearest of a query (d,)."""

    library: str
    m: int
    ef_construction: int
    set_ef: Callable[[int], None]
    search: Callable[[Any], Ids]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.library} m={self.m} ef_construction={self.ef_construction}"

    def answers(self, queries: Any) -> Ids:
        """Ids of every query (q, k)."""
        return np.stack([self.search(query) for query in queries])

    def least_ef(self, truth: Neighbours, recall: float) -> int | None:
        """The least value of the search parameter that reaches a recall; None if none does."""
        low, high = LEAST_EF - 1, MOST_EF

        def reaches(ef: int) -> bool:
            self.set_ef(ef)
            return truth.recall(self.answers(truth.queries)) >= recall

        if not reaches(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return high


def build(library: str, data: Vectors, m: int, ef_construction: int) -> Graph:
    """Build a graph over all rows with every processor, to be searched by one thread."""
    return BUILDERS[library](data, m, ef_construction)


def _hnswlib(data: Vectors, m: int, ef_construction: int) -> Graph:
    import hnswlib

    index = hnswlib.Index(space=data.metric, dim=data.rows.shape[1])
    index.init_index(max_elements=len(data.rows), M=m, ef_construction=ef_construction)
    index.add_items(data.rows)
    index.set_num_threads(1)

    def search(query: Any) -> Ids:
        return np.asarray(index.knn_query(query, K)[0][0].astype(np.int64))

    return Graph("hnswlib", m, ef_construction, index.set_ef, search)


def _faiss(data: Vectors, m: int, ef_construction: int) -> Graph:
    import faiss

    cosine = data.metric == "cosine"
    rows = np.array(data.rows)
    if cosine:
        faiss.normalize_L2(rows)
    kind = faiss.METRIC_INNER_PRODUCT if cosine else faiss.METRIC_L2
    index = faiss.IndexHNSWFlat(rows.shape[1], m, kind)
    index.hnsw.efConstruction = ef_construction
    index.add(rows)
    faiss.omp_set_num_threads(1)

    def set_ef(ef: int) -> None:
        index.hnsw.efSearch = ef

    def search(query: Any) -> Ids:
        one = np.array(query)[None]
        if cosine:
            one /= np.linalg.norm(one)
        return np.asarray(index.search(one, K)[1][0])

    return Graph("faiss", m, ef_construction, set_ef, search)


def _usearch(data: Vectors, m: int, ef_construction: int) -> Graph:
    from usearch.index import Index

    metric = "cos" if data.metric == "cosine" else "l2sq"
    index = Index(
        ndim=data.rows.shape[1],
        metric=metric,
        dtype="f32",
        connectivity=m,
        expansion_add=ef_construction,
    )
    index.add(np.arange(len(data.rows)), data.rows)

    def set_ef(ef: int) -> None:
        index.expansion_search = ef

    def search(query: Any) -> Ids:
        return np.asarray(index.search(query, K, threads=1).keys.astype(np.int64))

    return Graph("usearch", m, ef_construction, set_ef, search)


BUILDERS = {"hnswlib": _hnswlib, "faiss": _faiss, "usearch": _usearch}
