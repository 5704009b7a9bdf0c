"""hnswlib: the HNSW reference implementation, with metadata kept beside it.

A filter becomes a Python function that hnswlib calls for every candidate. This is its only
interface for filters, and slow, since each call takes the interpreter's lock. The function looks
ids up in a set that is made with the searcher, outside the clock.

Threads: writes use all cores that this process may run on; a search uses one. `ef` belongs to the
index, not to a query, so a searcher sets it with every call (about 0.1 us).
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt

_SPACES = {vt.Metric.L2: "l2", vt.Metric.COSINE: "cosine", vt.Metric.IP: "ip"}
_FIRST_CAPACITY = 1024


class HnswlibBuild(vt.Params):
    """m: links per node and level; ef_construction: candidates while building."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=200, ge=1, le=100_000)


class HnswlibSearch(vt.Params):
    """ef_search: candidates while searching; hnswlib's own default is 10."""

    ef_search: int = Bound(default=10, ge=1, le=1_000_000)


class HnswlibStore(vt.LibraryIndex):
    """One hnswlib index, its rows, and two files."""

    name: ClassVar[str] = "hnswlib"
    title: ClassVar[str] = "hnswlib"
    module: ClassVar[str | None] = "hnswlib"
    extra: ClassVar[str | None] = "hnswlib"
    suffix = "hnsw"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                build=HnswlibBuild,
                search=HnswlibSearch,
                high_recall_params={"ef_search": 512},
                # After replacements and deletes under inner product, 0.7 was seen under a filter in
                # 6 % of graphs of the same rows, and 0.68 in Chroma's, which are of this library.
                filtered_floors={vt.Metric.IP: 0.5},
            )
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        refuses_duplicates=True,
        caveats=(
            "metadata lies beside the index, in this process; a filter is evaluated there before"
            " the clock starts, and a Python function checks every candidate",
            "writes use all cores, a search uses one",
            "deleted rows are only marked and keep their memory",
            "a search that reaches fewer rows than it was asked for raises instead of answering",
            "flush writes the whole index to one file and syncs it",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import hnswlib

        self._hnswlib = hnswlib

    def version(self) -> str:
        return version("hnswlib")

    def _make(self, schema: vt.Schema, index: vt.Index) -> Any:
        params = HnswlibBuild.model_validate(index.params.model_dump())
        made = self._hnswlib.Index(_SPACES[schema.metric], schema.dim)
        made.init_index(_FIRST_CAPACITY, params.m, params.ef_construction)
        return made

    def _load(self, schema: vt.Schema, index: vt.Index) -> Any:
        made = self._hnswlib.Index(_SPACES[schema.metric], schema.dim)
        made.load_index(str(self._index_file))
        return made

    def _save(self, path: Path) -> None:
        self._index.save_index(str(path))

    def build(self) -> None:
        # Gives back the room that growing left over.
        self._index.resize_index(max(1, self._index.get_current_count()))

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(self._open.upsert(batch))  # adding a known id replaces its vector

    def _add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        needed = self._index.get_current_count() + len(ids)
        if needed > self._index.get_max_elements():
            self._index.resize_index(max(needed, self._index.get_max_elements() * 3 // 2))
        threads = len(os.sched_getaffinity(0))
        # An id that was marked deleted comes back to life here, at its new place.
        self._index.add_items(vectors, ids, num_threads=threads)

    def _remove(self, ids: NDArray[np.int64]) -> None:
        for label in ids.view(np.uint64).tolist():  # negative ids are unsigned labels there
            self._index.mark_deleted(label)

    def _read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self._index.get_items(ids, return_type="numpy")
        return vectors

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        assert isinstance(params, HnswlibSearch)
        rows = self._open
        ef, query, index = params.ef_search, self._index.knn_query, self._index
        allowed = None if where is None else frozenset(rows.ids[rows.matching(where)].tolist())
        # hnswlib raises rather than answer with fewer than it was asked for.
        most = min(k, len(rows) if allowed is None else len(allowed))
        if not most:
            return lambda vector: (np.empty(0, np.int64), np.empty(0, np.float32))

        def plain(vector: NDArray[np.float32], /) -> vt.Hits:
            index.ef = ef
            ids, scores = query(vector, most, 1)
            return ids[0].view(np.int64), scores[0]

        if allowed is None:
            return plain
        keep = allowed.__contains__

        def filtered(vector: NDArray[np.float32], /) -> vt.Hits:
            index.ef = ef
            ids, scores = query(vector, most, 1, keep)
            return ids[0].view(np.int64), scores[0]

        return filtered

    def footprint(self) -> vt.Footprint:
        return vt.Footprint(index_bytes=int(self._index.index_file_size()))
