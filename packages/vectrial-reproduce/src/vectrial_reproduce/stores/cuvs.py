"""NVIDIA cuVS: CAGRA graphs, IVF-PQ and exact search on a GPU, with ids and metadata beside them.

cuVS makes an index of all vectors at once, so what is inserted waits in this process's memory until
`build`. From then on the index only answers: cuVS removes nothing, and its ways to add vectors to
an index are not used here. A row's position in the index is its slot in `Rows`, and positions are
translated to ids here.

A search sends one query to the GPU, waits until the search has ended there, and brings the answer
back; all of that is timed. Room for the answer, and the handle that keeps CUDA's streams and
libraries, are made with the searcher. So is a filter: one bit per row, in the memory of the GPU.
Where cuVS finds fewer rows than it was asked for, it fills up with positions that no row has.

Memory of the GPU comes from the device's own pool (`rmm`), as cuVS's documentation advises: without
a pool every search would wait for the driver's allocator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound
from pydantic import model_validator

from vectrial.stores import common as vt

_METRICS = {
    vt.Metric.L2: "sqeuclidean",
    vt.Metric.COSINE: "cosine",
    vt.Metric.IP: "inner_product",
}
#: The cells of an inverted index by cuVS's default, and the fewest rows that each should have.
_LISTS, _ROWS_PER_LIST = 1024, 40
_WORD_BITS = 32
#: The most rows of an answer that `ivf_pq` fills up with positions that no row has: longer ones
#: end in whatever was in memory where the cells that were probed hold too few (cuVS 26.10, H200).
_FILLED_UP = 256


class CagraBuild(vt.Params):
    """graph_degree: links per node; intermediate_graph_degree: those of the graph it is pruned
    from; build_algo: how that one is found."""

    graph_degree: int = Bound(default=64, ge=2, le=1024)
    intermediate_graph_degree: int = Bound(default=128, ge=2, le=2048)
    build_algo: Literal["ivf_pq", "nn_descent", "iterative_cagra_search"] = "ivf_pq"

    @model_validator(mode="after")
    def _check_degrees(self) -> CagraBuild:
        if self.graph_degree > self.intermediate_graph_degree:
            raise ValueError("graph_degree is at most intermediate_graph_degree")
        return self


class CagraSearch(vt.Params):
    """itopk_size: candidates while searching, at least k; search_width: nodes looked at in each
    step."""

    itopk_size: int = Bound(default=64, ge=1, le=65_536)
    search_width: int = Bound(default=1, ge=1, le=1024)


class CuvsIvfPqBuild(vt.Params):
    """nlist: coarse cells; m_pq: codes per vector, cuVS's pq_dim; nbits: bits of each code.

    nlist None means 1,024, cuVS's own number, or fewer where they would have less than 40 rows
    each; m_pq None what cuVS chooses for the dimension.
    """

    nlist: int | None = Bound(default=None, ge=1, le=1_000_000)
    m_pq: int | None = Bound(default=None, ge=1, le=65_536)
    nbits: int = Bound(default=8, ge=4, le=8)

    @model_validator(mode="after")
    def _check_bytes(self) -> CuvsIvfPqBuild:
        if self.m_pq is not None and self.m_pq * self.nbits % 8:
            raise ValueError("m_pq times nbits is a multiple of 8")
        return self


class CuvsIvfPqSearch(vt.Params):
    """nprobe: cells looked into."""

    nprobe: int = Bound(default=20, ge=1, le=1_000_000)


class CuvsStore(vt.LibraryIndex):
    """One cuVS index on the first GPU, its rows, and two files."""

    name: ClassVar[str] = "cuvs"
    title: ClassVar[str] = "NVIDIA cuVS"
    module: ClassVar[str | None] = "cuvs"
    environment: ClassVar[vt.Environment | None] = vt.Environment("cuvs", objects=True)
    suffix = "cuvs"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        indexes={
            "cagra": vt.IndexKind(
                build=CagraBuild,
                search=CagraSearch,
                high_recall_params={"itopk_size": 512, "search_width": 4},
                candidates="itopk_size",
                tuning_ranges={"graph_degree": (16, 128)},
            ),
            "ivf_pq": vt.IndexKind(
                build=CuvsIvfPqBuild,
                search=CuvsIvfPqSearch,
                recall_floor=0.5,
                high_recall_params={"nprobe": 4096},
                filters=frozenset(),
                exact_scores=False,
            ),
            "flat": vt.IndexKind(exact=True, recall_floor=0.999),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        get=False,
        scan=False,
        upsert=False,
        delete=False,
        persistent=True,
        inserts_after_build=False,
        refuses_duplicates=True,
        caveats=(
            "a search is one query that goes to the GPU and back, which is not what a GPU is best"
            " at: cuVS is made for many queries in one call",
            "vectors wait in this process's memory until build makes the index of all of them; rows"
            " are searchable and durable from then on, and none is added afterwards",
            "metadata lies beside the index, in this process; a filter is evaluated there before"
            " the clock starts, and cuVS is given the bits of the rows it keeps",
            "ivf_pq: answers of more than 256 rows are not in order and, where too few cells are"
            " probed, not all rows: the first are sorted here, the second refused",
            "only the first GPU is used; memory there comes from the device's own pool",
            "flush writes the whole index to one file and syncs it; another version of cuVS may not"
            " read it",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import cuvs
        import rmm
        from cuvs.common import Dataset, Resources
        from cuvs.neighbors import brute_force, cagra, filters, ivf_pq
        from pylibraft.common import device_ndarray

        if not isinstance(rmm.mr.get_current_device_resource(), rmm.mr.CudaAsyncMemoryResource):
            rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
        self._version = str(cuvs.__version__)
        self._modules = {"cagra": cagra, "ivf_pq": ivf_pq, "flat": brute_force}
        self._from_bitset: Callable[[Any], Any] = filters.from_bitset
        self._resources, self._dataset, self._on_device = Resources, Dataset, device_ndarray
        self._waiting: list[NDArray[np.float32]] = []  # what was inserted and is not built yet
        self._held: Any = None  # the vectors on the GPU, which an index may only refer to

    def version(self) -> str:
        return self._version

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._requested = index
        super().create(schema, index)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._requested = index
        super().open(schema, index)

    def _make(self, schema: vt.Schema, index: vt.Index) -> Any:
        return None  # cuVS has no empty index

    def _load(self, schema: vt.Schema, index: vt.Index) -> Any:
        module, path = self._modules[index.kind], str(self._index_file)
        if index.kind != "cagra":
            return module.load(path)
        # A graph is read into an index that is there, its vectors into a dataset: where none is
        # given cuVS reads the graph alone, which cannot be searched.
        graph, self._held = module.Index(), self._dataset()
        module.load(graph, path, out_dataset=self._held)
        return graph

    def _save(self, path: Path) -> None:
        self._modules[self._requested.kind].save(str(path), self._index)

    def close(self) -> None:
        super().close()
        self._held = None  # after the index, which may refer to it
        self._waiting.clear()

    def insert(self, batch: pa.RecordBatch) -> None:
        if self._index is not None:
            raise vt.Unsupported(f"{self.name} adds no rows after build")
        super().insert(batch)

    # What the base class does with rows alone is refused: the index cannot follow.
    upsert = vt.Store.upsert
    delete = vt.Store.delete
    get = vt.Store.get
    scan = vt.Store.scan

    def _add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self._waiting.append(vectors.copy())  # a batch may be a view of a mapped file

    def _remove(self, ids: NDArray[np.int64]) -> None:
        raise vt.Unsupported(f"{self.name} has no delete")

    def _read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        raise vt.Unsupported(f"{self.name} has no get")

    def build(self) -> None:
        if not self._waiting:
            return
        vectors = np.concatenate(self._waiting)
        self._waiting.clear()
        metric, module = _METRICS[self._open.schema.metric], self._modules[self._requested.kind]
        match self._requested.params:
            case CagraBuild() as params:
                if len(vectors) == 1:  # cuVS would end this process: an illegal memory access
                    raise vt.StoreError(f"{self.name} makes no graph of a single row")
                settings = module.IndexParams(metric=metric, **params.model_dump())
                self._held = self._on_device(vectors)
                self._index = module.build(settings, self._held)
            case CuvsIvfPqBuild() as params:
                settings = module.IndexParams(
                    metric=metric,
                    n_lists=params.nlist or max(1, min(_LISTS, len(vectors) // _ROWS_PER_LIST)),
                    pq_dim=params.m_pq or 0,
                    pq_bits=params.nbits,
                )
                self._index = module.build(settings, vectors)
            case _:
                self._held = self._on_device(vectors)
                self._index = module.build(self._held, metric=metric)
        self.flush()

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        if self._index is None:
            raise vt.StoreError(f"{self.name} cannot be searched before build has made the index")
        rows = self._open
        kept = None if where is None else rows.matching(where)
        most = min(k, len(rows) if kept is None else int(np.count_nonzero(kept)))
        if not most:
            return lambda vector: (np.empty(0, np.int64), np.empty(0, np.float32))
        bits = None if kept is None else self._from_bitset(self._on_device(_bit_mask(kept)))
        module = self._modules[self._requested.kind]
        positions: type[np.integer[Any]] = np.int64
        match params:
            case CagraSearch():
                settings = module.SearchParams(
                    itopk_size=max(params.itopk_size, most), search_width=params.search_width
                )
                search = partial(module.search, settings, self._index, filter=bits)
                positions = np.uint32
            case CuvsIvfPqSearch():
                lists = self._index.n_lists
                if most > _FILLED_UP and params.nprobe < lists:
                    raise vt.Unsupported(
                        f"{self.name} answers more than {_FILLED_UP} rows of ivf_pq only where all"
                        f" {lists} cells are probed"
                    )
                settings = module.SearchParams(n_probes=min(params.nprobe, lists))
                search = partial(module.search, settings, self._index)
            case _:
                search = partial(module.search, self._index, prefilter=bits)
        found = self._on_device.empty((1, most), dtype=positions)
        scores = self._on_device.empty((1, most), dtype=np.float32)
        run = _searcher(
            search, self._resources(), self._on_device, found, scores, rows.ids, rows.schema.dim
        )
        if isinstance(params, CuvsIvfPqSearch):
            return _sort_answers(run, highest_first=rows.schema.metric is vt.Metric.IP)
        return run

    def footprint(self) -> vt.Footprint:
        exists = self._index_file.exists()
        return vt.Footprint(index_bytes=self._index_file.stat().st_size if exists else None)


def _bit_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """One bit per row, (n,) → (⌈n / 32⌉,), the first row in the lowest bit of the first word."""
    words = np.zeros(-(-len(mask) // _WORD_BITS), np.dtype("<u4"))
    packed = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: len(packed)] = packed
    return words


def _hits(
    positions: NDArray[np.integer[Any]], scores: NDArray[np.float32], ids: NDArray[np.int64]
) -> vt.Hits:
    """Ids and scores of an answer, (k,) each, from `positions` in `ids` (n,). Positions that no row
    has, with which cuVS pads an answer, are left out."""
    filled = (positions >= 0) & (positions < len(ids))
    if not filled.all():
        positions, scores = positions[filled], scores[filled]
    return ids[positions], scores


def _searcher(
    search: Callable[..., Any],
    resources: Any,
    on_device: Callable[[NDArray[np.float32]], Any],
    found: Any,
    scores: Any,
    ids: NDArray[np.int64],
    dim: int,
) -> vt.Searcher:
    """A search that writes positions in `ids` (n,) and scores into arrays on the GPU, (1, k)."""
    k = found.shape[1]

    def run(vector: NDArray[np.float32], /) -> vt.Hits:
        if len(vector) != dim:
            raise vt.StoreError(f"a query has {len(vector)} components, and the index {dim}")
        query = on_device(vector.reshape(1, dim))
        search(query, k, neighbors=found, distances=scores, resources=resources)
        resources.sync()
        return _hits(found.copy_to_host()[0], scores.copy_to_host()[0], ids)

    return run


def _sort_answers(search: vt.Searcher, highest_first: bool) -> vt.Searcher:
    """A search with sorted answers: those of cuVS's `ivf_pq` are unsorted if k is large."""

    def run(vector: NDArray[np.float32], /) -> vt.Hits:
        ids, scores = search(vector)
        order = np.argsort(-scores if highest_first else scores, kind="stable")
        return ids[order], scores[order]

    return run
