"""AnnLite 0.5.10: HNSW in memory, Documents in RocksDB, filter columns in SQLite tables."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bounded

from vectrial.stores import common as vt
from vectrial_reproduce.stores.docarray.documents import (
    ENVIRONMENT,
    ids_of,
    to_batch,
    to_documents,
    to_query,
)

METRICS = {vt.Metric.L2: "euclidean", vt.Metric.COSINE: "cosine", vt.Metric.IP: "inner_product"}
#: A vector shorter than ten times float32's epsilon is not normalised under cosine.
NORMS = (10 * 2.0**-23, math.inf)
#: Types of columns in AnnLite's own table; booleans are kept there as 0 and 1.
_COLUMNS = {
    vt.FieldType.INT: int,
    vt.FieldType.BOOL: int,
    vt.FieldType.FLOAT: float,
    vt.FieldType.STRING: str,
}


class AnnLiteHnswBuild(vt.Params):
    """m: links of a node per layer (`max_connection`). ef_construction: candidates kept while
    a node is linked. Defaults are AnnLite's."""

    m: int = Bounded(16, ge=2, le=512)
    ef_construction: int = Bounded(200, ge=1)


class AnnLiteHnswSearch(vt.Params):
    """ef_search: candidates kept during a search; AnnLite raises it to k where it is smaller."""

    ef_search: int = Bounded(50, ge=1)


class AnnLiteStore(vt.Store):
    """AnnLite used directly, without a DocumentArray around it.

    `flush` dumps the graph beside the documents, as AnnLite's own guide does, so that `open`
    loads it. AnnLite would load a dump that later writes have left behind without noticing, so
    the first write after a dump removes it; without one, `open` builds the graph anew from the
    documents, which RocksDB has synced at every write.
    """

    name = "annlite"
    title = "AnnLite"
    module = "annlite"
    environment = ENVIRONMENT
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                build=AnnLiteHnswBuild,
                search=AnnLiteHnswSearch,
                high_recall_params={"ef_search": 400},
                recall_floor=0.95,
                recall_floors={vt.Metric.IP: 0.9},
            )
        },
        find=frozenset({"eq", "in", "range", "and", "or", "not"}),
        field_types=frozenset(_COLUMNS),
        nulls=True,
        norms=NORMS,
        persistent=True,
        caveats=(
            "a search under a filter is not offered: AnnLite's own ends its walk of the graph "
            "before it has k rows and then raises, for up to 30 % of queries when few rows match",
            "an update of a row with metadata is a delete and an insert, since AnnLite's own "
            "update leaves the filter columns as they were; deleted nodes stay in the graph",
            "every search and every find by condition first counts all rows of a SQLite table, in "
            "time that grows with them (2 ms at 50,000 rows, 1.7 of them for the count)",
            "every result's id is looked up in that table, one statement each",
            "every write is synced to disk (RocksDB), the graph only by flush",
            "inserts build the graph with all cores",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import annlite
        from loguru import logger

        logger.disable("annlite")  # it would log to standard output
        self._module = annlite
        self._folder = location / "annlite"
        self._ann: Any = None

    def version(self) -> str:
        return str(self._module.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self.open(schema, index)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        assert isinstance(index.params, AnnLiteHnswBuild)
        self._schema = schema
        self._ann = self._module.AnnLite(
            schema.dim,
            metric=METRICS[schema.metric],
            max_connection=index.params.m,
            ef_construction=index.params.ef_construction,
            columns={schema.columns[f.name]: _COLUMNS[f.type] for f in schema.fields} or None,
            data_path=self._folder,
        )
        self._dumped = self._ann.snapshot_path is not None

    def close(self) -> None:
        if self._ann is not None:
            self._ann.close()
            self._ann = None

    def drop(self) -> None:
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def flush(self) -> None:
        if not self._dumped and self._ann.index_size:
            self._ann.dump()
            self._dumped = True

    def _forget_dump(self) -> None:
        if self._dumped:
            while dump := self._ann.snapshot_path:
                shutil.rmtree(dump)
            self._dumped = False

    def insert(self, batch: pa.RecordBatch) -> None:
        from docarray import DocumentArray

        if batch.num_rows:  # of no Documents AnnLite cannot tell the dimension
            self._forget_dump()
            self._ann.index(DocumentArray(to_documents(batch, self._schema)))

    def upsert(self, batch: pa.RecordBatch) -> None:
        from docarray import DocumentArray

        if not batch.num_rows:
            return
        self._forget_dump()
        documents = DocumentArray(to_documents(batch, self._schema))
        if not self._schema.fields:
            self._ann.update(documents)
            return
        self._ann.delete(documents)
        self._ann.index(documents)

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._forget_dump()
        self._ann.delete([str(id_) for id_ in ids.tolist()])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = [self._ann.get_doc_by_id(str(id_)) for id_ in ids.tolist()]
        rows = [document for document in found if document is not None]
        return vt.table_of(self._schema, [to_batch(rows, self._schema)])

    def count(self) -> int:
        return int(self._ann.index_size)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for documents in self._ann.documents_generator(0, batch_size):
            yield to_batch(documents, self._schema)

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        assert isinstance(params, AnnLiteHnswSearch)
        if where is not None:
            raise vt.Unsupported(f"{self.name} does not search under a filter")
        search, graph, ef = self._ann.search_numpy, self._ann.vec_index(0), params.ef_search

        def search_one(
            vector: NDArray[np.float32],
        ) -> vt.Hits:
            graph.ef_search = ef  # AnnLite applies it at every search; another searcher may differ
            scores, ids = search(vector[np.newaxis], limit=k)
            return ids[0], np.asarray(scores[0], dtype=np.float32)

        return search_one

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        query = to_query(where, self._schema, sql_nulls=True)
        return ids_of(self._ann.filter(query, limit=limit, include_metadata=False))
