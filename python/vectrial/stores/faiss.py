"""FAISS: flat, HNSW and IVF-PQ indexes, with ids and metadata kept beside them.

FAISS indexes hold vectors under integer keys and nothing else, so metadata are in `Rows`. A filter
becomes an `IDSelector` of the rows that it keeps. It is made with the searcher, outside the clock,
and FAISS applies it in every search. Searches go to the index below the `IndexIDMap2`, and
positions are translated to ids here: the map's own search writes into its parameters, so two
threads that share them crash (seen with 1.15.1). Cosine is the inner product of vectors that are
normalised when they are written; a query is normalised inside the timed call.

Threads: writes and training use all cores that this process may run on; a search uses one.

An IVF-PQ index is trained by `build` on all rows written until then, which are held in memory. It
cannot be searched before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.metric import squared_lengths
from vectrial.stores import common as vt
from vectrial.stores.common.exact import length

#: Rows that a centroid is trained with at most (`ClusteringParameters.max_points_per_centroid`),
#: and rows that are copied at once while an index is built.
_TRAINED_EACH, _ADDED_ROWS = 256, 100_000


class FaissHnswBuild(vt.Params):
    """m: links per node and level; ef_construction: candidates while building."""

    m: int = Bound(default=32, ge=2, le=512)
    ef_construction: int = Bound(default=40, ge=1, le=100_000)


class FaissHnswSearch(vt.Params):
    """ef_search: candidates while searching."""

    ef_search: int = Bound(default=16, ge=1, le=1_000_000)


class FaissIvfPqBuild(vt.Params):
    """nlist: coarse cells; m_pq: codes per vector (sub-quantizers); nbits: bits of each code.

    nlist None means 4·sqrt(n), m_pq None the largest divisor of d up to d/2. Fewer rows than nlist
    have a cell each. The gate's own store has 2,000 rows, too few to train codes of 11 bits.
    """

    nlist: int | None = Bound(default=None, ge=1, le=1_000_000)
    m_pq: int | None = Bound(default=None, ge=1, le=65_536)
    nbits: int = Bound(default=8, ge=4, le=10)


class FaissIvfPqSearch(vt.Params):
    """nprobe: cells looked into."""

    nprobe: int = Bound(default=1, ge=1, le=1_000_000)


class FaissStore(vt.LibraryIndex):
    """One FAISS index, its rows, and two files."""

    name: ClassVar[str] = "faiss"
    title: ClassVar[str] = "FAISS"
    module: ClassVar[str | None] = "faiss"
    extra: ClassVar[str | None] = "faiss"
    suffix = "faiss"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        indexes={
            "flat": vt.IndexKind(exact=True, recall_floor=1.0),
            "hnsw": vt.IndexKind(
                build=FaissHnswBuild,
                search=FaissHnswSearch,
                high_recall_params={"ef_search": 512},
                unsupported=frozenset({"upsert", "delete"}),
            ),
            "ivf_pq": vt.IndexKind(
                build=FaissIvfPqBuild,
                search=FaissIvfPqSearch,
                recall_floor=0.5,
                high_recall_params={"nprobe": 4096},
                unsupported=frozenset({"get", "scan"}),
                least_rows=lambda build: 2**build.nbits,  # a code needs a row to be trained
                exact_scores=False,
            ),
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
            " the clock starts, and FAISS is given the ids it keeps",
            "writes and training use all cores, a search uses one",
            "flush writes the whole index to one file and syncs it",
            "hnsw under a filter that few rows pass finds fewer of them than there are: rows that"
            " do not pass take places among the ef_search candidates",
            "hnsw depends on the number of rows that are written at once (batch_rows) where they"
            " come in the order of their clusters: a batch is linked by several threads",
            "ivf_pq: rows are searchable and durable once build has trained the index, and the"
            " original vectors are not kept",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import faiss

        self._faiss = faiss
        self._waiting: vt.Rows | None = None  # the training rows of ivf_pq

    def version(self) -> str:
        return str(self._faiss.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._requested = index
        super().create(schema, index)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._requested = index
        super().open(schema, index)

    def _make(self, schema: vt.Schema, index: vt.Index) -> Any:
        faiss = self._faiss
        measure = faiss.METRIC_L2 if schema.metric is vt.Metric.L2 else faiss.METRIC_INNER_PRODUCT
        match index.params:
            case FaissHnswBuild() as params:
                bare = faiss.IndexHNSWFlat(schema.dim, params.m, measure)
                bare.hnsw.efConstruction = params.ef_construction
                return faiss.IndexIDMap2(bare)
            case FaissIvfPqBuild():
                self._waiting = vt.Rows(vt.Schema(schema.dim, schema.metric), keep_vectors=True)
                return None
            case _:
                return faiss.IndexIDMap2(faiss.IndexFlat(schema.dim, measure))

    def _load(self, schema: vt.Schema, index: vt.Index) -> Any:
        return self._faiss.read_index(str(self._index_file))

    def _save(self, path: Path) -> None:
        self._faiss.write_index(self._index, str(path))

    def close(self) -> None:
        super().close()
        self._waiting = None

    def build(self) -> None:
        waiting = self._waiting
        if waiting is None or not len(waiting):
            return
        assert isinstance(self._requested.params, FaissIvfPqBuild)
        slots = np.flatnonzero(waiting.live)
        self._index = self._ivf_pq(self._requested.params, len(slots))
        self._use_all_cores()
        # FAISS would look at no more rows to train, and copy all of them to choose.
        most = _TRAINED_EACH * max(self._index.nlist, self._index.pq.ksub)
        chosen = slots[np.linspace(0, len(slots) - 1, min(most, len(slots))).astype(np.int64)]
        self._index.train(waiting.vectors[chosen])
        for start in range(0, len(slots), _ADDED_ROWS):
            block = slots[start : start + _ADDED_ROWS]
            self._index.add_with_ids(waiting.vectors[block], waiting.ids[block])
        self._waiting = None
        self.flush()

    def _ivf_pq(self, params: FaissIvfPqBuild, rows: int) -> Any:
        faiss, schema = self._faiss, self._open.schema
        nlist = min(params.nlist or max(1, min(rows // 40, int(4 * rows**0.5))), rows)
        parts = params.m_pq or _largest_divisor(schema.dim, schema.dim // 2)
        if schema.dim % parts:
            raise vt.StoreError(f"m_pq = {parts} does not divide the {schema.dim} dimensions")
        l2 = schema.metric is vt.Metric.L2
        coarse = (faiss.IndexFlatL2 if l2 else faiss.IndexFlatIP)(schema.dim)
        measure = faiss.METRIC_L2 if l2 else faiss.METRIC_INNER_PRODUCT
        index = faiss.IndexIVFPQ(coarse, schema.dim, nlist, parts, params.nbits, measure)
        # Recall is measured by the gate: a warning on stderr would only break progress bars.
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.set_direct_map_type(faiss.DirectMap.Hashtable)  # removal by id needs it
        return index

    def upsert(self, batch: pa.RecordBatch) -> None:
        vt.refuse_operation(self, self._requested, "upsert")
        super().upsert(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        vt.refuse_operation(self, self._requested, "delete")
        super().delete(ids)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        vt.refuse_operation(self, self._requested, "get")
        return super().get(ids)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        vt.refuse_operation(self, self._requested, "scan")
        return super().scan(batch_size)

    def _add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        if self._open.schema.metric is vt.Metric.COSINE:
            lengths = np.sqrt(squared_lengths(vectors))
            vectors = (vectors / lengths[:, None]).astype(np.float32)
        if self._waiting is not None:
            self._waiting.insert(vt.batch_of(self._waiting.schema, ids, vectors, {}))
            return
        self._use_all_cores()
        self._index.add_with_ids(vectors, ids)

    def _remove(self, ids: NDArray[np.int64]) -> None:
        if self._waiting is not None:
            self._waiting.delete(ids)
        elif self._requested.kind == "ivf_pq":  # its hash table of ids takes no other selector
            self._index.remove_ids(self._faiss.IDSelectorArray(ids))
        else:
            self._index.remove_ids(self._faiss.IDSelectorBatch(ids))

    def _read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self._index.reconstruct_batch(ids)
        return vectors

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        if self._index is None:
            raise vt.StoreError("ivf_pq cannot be searched before build has trained it")
        faiss, rows = self._faiss, self._open
        faiss.omp_set_num_threads(1)
        if isinstance(params, FaissIvfPqSearch):
            index, ids = self._index, None
            selector = None
            if where is not None:
                selector = faiss.IDSelectorBatch(rows.ids[rows.matching(where)])
            nprobe = min(params.nprobe, index.nlist)
            settings = faiss.SearchParametersIVF(nprobe=nprobe, sel=selector)
        else:
            index = faiss.downcast_index(self._index.index)
            ids = faiss.vector_to_array(self._index.id_map)
            selector = None
            if where is not None:
                matching_rows = rows.matching(where)[rows.slots(ids)]
                selector = faiss.IDSelectorBitmap(np.packbits(matching_rows, bitorder="little"))
            if isinstance(params, FaissHnswSearch):
                settings = faiss.SearchParametersHNSW(efSearch=params.ef_search, sel=selector)
            else:
                settings = faiss.SearchParameters(sel=selector)
        cosine = rows.schema.metric is vt.Metric.COSINE
        return _searcher(index, ids, k, settings, cosine, faiss.swig_ptr)

    def footprint(self) -> vt.Footprint:
        exists = self._index_file.exists()
        return vt.Footprint(index_bytes=self._index_file.stat().st_size if exists else None)

    def _use_all_cores(self) -> None:
        self._faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))


def _largest_divisor(number: int, most: int) -> int:
    return next(part for part in range(max(1, most), 0, -1) if number % part == 0)


def _searcher(
    index: Any,
    ids: NDArray[np.int64] | None,
    k: int,
    settings: Any,
    normalise: bool,
    pointer: Callable[[Any], Any],
) -> vt.Searcher:
    """A search of `index`. Its answers are ids, or positions in `ids` if those are given."""
    # What `index.search` itself calls for many queries at once, without its checks and copies.
    search, dim = index.search_c, index.d
    if ids is not None and np.array_equal(ids, np.arange(len(ids))):
        ids = None  # the positions are the ids

    def plain(vector: NDArray[np.float32], /) -> vt.Hits:
        if len(vector) != dim:
            raise vt.StoreError(f"a query has {len(vector)} components, and the index {dim}")
        scores, found = np.empty(k, np.float32), np.empty(k, np.int64)
        search(1, pointer(vector), k, pointer(scores), pointer(found), settings)
        if found.item(-1) < 0:  # fewer than k: the rest is padding
            count = int(np.count_nonzero(found >= 0))
            scores, found = scores[:count], found[:count]
        return (found if ids is None else ids[found]), scores

    def cosine(vector: NDArray[np.float32], /) -> vt.Hits:
        return plain(vector / np.float32(length(vector)))

    return cosine if normalise else plain
