"""USearch: a single HNSW index in float32, with metadata kept beside it.

The library's default precision is half that of the data (bfloat16), which would compare it
unequally, so `f32` is asked for. Its Python interface has no filtered search.

Threads: writes use all cores that this process may run on; a search uses one. The number of
candidates belongs to the index, not to a query, so a searcher sets it with every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.store import (
    ALL_OPERATORS,
    Capabilities,
    FieldType,
    Footprint,
    Hits,
    Index,
    IndexKind,
    Params,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.common.arrow import ids_of, table_of, vectors_of
from vectrial.stores.common.files import atomic_replace
from vectrial.stores.common.rows import Rows

_METRICS = {Metric.L2: "l2sq", Metric.COSINE: "cos", Metric.IP: "ip"}


class HnswBuild(Params):
    """m: links per node and level ("connectivity"); ef_construction: candidates while building
    ("expansion_add")."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=128, ge=1, le=100_000)


class HnswSearch(Params):
    """ef_search: candidates while searching ("expansion_search")."""

    ef_search: int = Bound(default=64, ge=1, le=1_000_000)


class USearchStore(Store):
    """One USearch index, its rows, and two files."""

    name: ClassVar[str] = "usearch"
    title: ClassVar[str] = "USearch"
    module: ClassVar[str | None] = "usearch"
    extra: ClassVar[str | None] = "usearch"
    capabilities: ClassVar[Capabilities] = Capabilities(
        scores={
            Metric.L2: ScoreKind.L2_SQUARED,
            Metric.COSINE: ScoreKind.COSINE_DISTANCE,
            Metric.IP: ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": IndexKind(
                build=HnswBuild, search=HnswSearch, high_recall_params={"ef_search": 512}
            )
        },
        find=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        refuses_duplicates=True,
        caveats=(
            "metadata lies beside the index, in this process, and answers find by condition;"
            " there is no filtered search",
            "float32 is asked for; the library's own default is of lower precision",
            "writes use all cores, a search uses one",
            "flush writes the whole index to one file and syncs it",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        from usearch.index import Index as USearchIndex

        self._new_index = USearchIndex
        self._rows: Rows | None = None
        self._index: Any = None
        self._saved = True

    def version(self) -> str:
        return version("usearch")

    # -- life ------------------------------------------------------------------------------

    def create(self, schema: Schema, index: Index) -> None:
        self._rows = Rows(schema)
        self._index = self._made(schema, index)
        self._saved = False

    def open(self, schema: Schema, index: Index) -> None:
        if not self._index_file.exists():
            raise StoreError(f"nothing was flushed at {self.location}")
        self._rows = Rows(schema)
        self._rows.load(self._rows_file)
        self._index = self._made(schema, index)
        self._index.load(str(self._index_file))

    def _made(self, schema: Schema, index: Index) -> Any:
        params = HnswBuild.model_validate(index.params.model_dump())
        return self._new_index(
            ndim=schema.dim,
            metric=_METRICS[schema.metric],
            dtype="f32",
            connectivity=params.m,
            expansion_add=params.ef_construction,
        )

    def close(self) -> None:
        self._index = self._rows = None

    def drop(self) -> None:
        self.close()
        self._index_file.unlink(missing_ok=True)
        self._rows_file.unlink(missing_ok=True)

    def flush(self) -> None:
        if self._saved:
            return
        aside = self._index_file.with_suffix(".new")
        self._index.save(str(aside))
        atomic_replace(aside, self._index_file)
        self._open.save(self._rows_file)
        self._saved = True

    # -- data ------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        self._open.insert(batch)
        self._add(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        known = self._open.present(ids_of(batch))
        written = self._open.upsert(batch)
        self._remove(known)
        self._add(written)

    def delete(self, ids: NDArray[np.int64]) -> None:
        known = self._open.present(ids)
        self._open.delete(known)
        self._remove(known)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        rows = self._open
        known = rows.present(ids)
        return table_of(rows.schema, [rows.batch(rows.slots(known), self._vectors(known))])

    def count(self) -> int:
        return len(self._open)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        rows = self._open
        for slots in rows.live_slots(batch_size):
            yield rows.batch(slots, self._vectors(rows.ids[slots]))

    def _add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._saved = False
            self._index.add(ids_of(batch).view(np.uint64), vectors_of(batch))

    def _remove(self, ids: NDArray[np.int64]) -> None:
        if len(ids):
            self._saved = False
            self._index.remove(ids.view(np.uint64))

    def _vectors(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        if not len(ids):
            return np.empty((0, self._open.schema.dim), np.float32)
        return np.asarray(self._index.get(ids.view(np.uint64)), dtype=np.float32)

    # -- questions -------------------------------------------------------------------------

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        assert isinstance(params, HnswSearch)
        assert where is None
        ef, index, query = params.ef_search, self._index, self._index.search

        def search(vector: NDArray[np.float32], /) -> Hits:
            index.expansion_search = ef
            found = query(vector, k, threads=1)
            return found.keys.view(np.int64), found.distances

        return search

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return self._open.find(where, limit)

    def footprint(self) -> Footprint:
        return Footprint(index_bytes=int(self._index.serialized_length))

    # -- small things ----------------------------------------------------------------------

    @property
    def _open(self) -> Rows:
        assert self._rows is not None, "create or open comes first"
        return self._rows

    @property
    def _index_file(self) -> Path:
        return self.location / "index.usearch"

    @property
    def _rows_file(self) -> Path:
        return self.location / "rows.parquet"
