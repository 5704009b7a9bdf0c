"""LanceDB: tables in the Lance columnar format, in this process.

The facts below hold for lancedb 0.40.0: they were read in its source and tested.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound
from pydantic import model_validator

from vectrial.stores import common as vt
from vectrial.stores.lancedb.text import LANCEDB_HYBRID, reranker, text_index

_TABLE = "rows"
_VECTOR_INDEX = "vector_idx"
_DISTANCE: dict[vt.Metric, Literal["l2", "cosine", "dot"]] = {
    vt.Metric.L2: "l2",
    vt.Metric.COSINE: "cosine",
    vt.Metric.IP: "dot",
}


class LanceIvfBuild(vt.Params):
    """nlist: partitions (`num_partitions`); None lets LanceDB choose by the number of rows."""

    nlist: int | None = Bound(default=None, ge=1, le=1_000_000)


class PqBuild(LanceIvfBuild):
    """m_pq: sub-vectors (`num_sub_vectors`); None is LanceDB's own choice. nbits: per code."""

    m_pq: int | None = Bound(default=None, ge=1, le=65_536)
    nbits: int = Bound(default=8, ge=4, le=8)


class LanceHnswBuild(LanceIvfBuild):
    """m, ef_construction: parameters of the graph inside each partition; the second is at least the
    first."""

    m: int = Bound(default=20, ge=2, le=1024)
    ef_construction: int = Bound(default=300, ge=4, le=100_000)

    @model_validator(mode="after")
    def _check_ef_construction(self) -> LanceHnswBuild:
        if self.ef_construction < self.m:
            raise ValueError("ef_construction is at least m")
        return self


class LanceIvfSearch(vt.Params):
    """nprobe: partitions looked into (`nprobes`). refine_factor: k times this many candidates
    get their exact distance from the stored vectors before the k best are returned; None
    returns the index's own distances."""

    nprobe: int = Bound(default=20, ge=1, le=1_000_000)
    refine_factor: int | None = Bound(default=None, ge=1, le=10_000)


class LanceHnswSearch(LanceIvfSearch):
    """ef_search: candidates held in each graph (`ef`); None is LanceDB's own 1.5·k. LanceDB
    refuses fewer than k·refine_factor, so that many are held at least."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


class LanceDB(vt.Store):
    """One table; scalar indexes on the id and on the fields that ask for one."""

    name: ClassVar[str] = "lancedb"
    title: ClassVar[str] = "LanceDB"
    module: ClassVar[str | None] = "lancedb"
    extra: ClassVar[str | None] = "lancedb"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                LanceHnswBuild,
                LanceHnswSearch,
                high_recall_params={"ef_search": 512, "nprobe": 64},
                tuning_ranges={"m": (8, 40)},  # no more than candidates
            ),
            "hnsw_sq": vt.IndexKind(
                LanceHnswBuild,
                LanceHnswSearch,
                high_recall_params={"ef_search": 512, "nprobe": 64, "refine_factor": 4},
                tuning_ranges={"m": (8, 40)},
                exact_scores=False,
                unsupported=frozenset({"inserts_after_build"}),
            ),
            "ivf_flat": vt.IndexKind(
                LanceIvfBuild, LanceIvfSearch, high_recall_params={"nprobe": 1024}
            ),
            "ivf_pq": vt.IndexKind(
                PqBuild,
                LanceIvfSearch,
                high_recall_params={"nprobe": 1024, "refine_factor": 50},
                least_rows=lambda build: 2**build.nbits,  # of fewer LanceDB makes an index of none
                exact_scores=False,
                unsupported=frozenset({"inserts_after_build"}),
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        payload_index=True,
        persistent=True,
        concurrent_search=True,
        hybrid=LANCEDB_HYBRID,
        caveats=(
            "hnsw is IVF_HNSW_FLAT and hnsw_sq IVF_HNSW_SQ: a graph inside each IVF partition",
            "hnsw_sq and ivf_pq are quantised: without refine_factor their distances are estimates,"
            " and their codes keep the range of the vectors of the build, which clips later ones",
            "ivf_pq has a partition for each 256 rows at most, whatever nlist",
            "rows written after the build are scanned exactly beside the index until they are"
            " waited for, which adds them to it, and joins partitions of a few hundred rows,"
            " whatever nlist",
            "the build step also compacts the table's files and removes its older versions, before"
            " it makes the index",
            "one search may use every core",
            "writes are not synced to the disk: flush has nothing to do",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        # Read once by the library; without it index_stats writes a warning to the terminal.
        os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")
        # So is this: else each side of a hybrid search warns that it adds a column of scores.
        os.environ.setdefault("LANCEDB_LOG", "warn,lance::dataset::scanner=error")
        import lancedb
        from lancedb.background_loop import LOOP

        self._lancedb = lancedb
        self._loop: Any = LOOP
        self._session = lancedb.Session()  # one cache of indexes for both tables
        self._async_table: Any = None
        self._table: Any = None

    def version(self) -> str:
        return str(self._lancedb.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._table = self._connect(schema, index).create_table(_TABLE, schema=schema.arrow())

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._table = self._connect(schema, index).open_table(_TABLE)

    def _connect(self, schema: vt.Schema, index: vt.Index) -> Any:
        self._schema, self._index = schema, index
        return self._lancedb.connect(self.location, session=self._session)

    def close(self) -> None:
        self._table = self._async_table = None

    def drop(self) -> None:
        self.close()
        shutil.rmtree(self.location / f"{_TABLE}.lance", ignore_errors=True)

    def build(self) -> None:
        from lancedb.index import Bitmap, BTree

        table = self._table
        self._compact()
        table.create_index("id", config=BTree())
        for field in self._schema.fields:
            column = self._schema.columns[field.name]
            if field.text:
                table.create_index(column, config=text_index())
            elif field.indexed:
                kind = Bitmap() if field.type is vt.FieldType.BOOL else BTree()
                table.create_index(column, config=kind)
        config = self._config()
        if config is not None:
            # Compacting the table after it would join partitions of few rows, whatever nlist.
            table.create_index("vector", config=config, name=_VECTOR_INDEX, replace=True)

    def _compact(self) -> None:
        with warnings.catch_warnings():
            # It warns of other readers of older versions; the folder is ours alone.
            warnings.simplefilter("ignore", UserWarning)
            self._table.optimize(cleanup_older_than=timedelta(0))

    def _config(self) -> Any:
        from lancedb import index

        build, distance = self._index.params, _DISTANCE[self._schema.metric]
        match build:
            case LanceHnswBuild():
                kind = index.HnswFlat if self._index.kind == "hnsw" else index.HnswSq
                return kind(
                    distance_type=distance,
                    num_partitions=build.nlist,
                    m=build.m,
                    ef_construction=build.ef_construction,
                )
            case PqBuild():
                return index.IvfPq(
                    distance_type=distance,
                    num_partitions=build.nlist,
                    num_sub_vectors=build.m_pq,
                    num_bits=build.nbits,
                )
            case LanceIvfBuild():
                return index.IvfFlat(distance_type=distance, num_partitions=build.nlist)
            case _:
                return None

    def wait_indexed(self) -> str:
        for field in self._schema.fields:
            if field.text:
                self._index_new_rows(f"{self._schema.columns[field.name]}_idx")
        if self._index.kind == "flat":
            return "there is no vector index; searches bypass any"
        found = self._index_new_rows(_VECTOR_INDEX)
        return f"index_stats: {found.num_indexed_rows} rows in {found.index_type}, 0 outside it"

    def _index_new_rows(self, name: str) -> Any:
        """Add the rows written after the build to an index; returns the index's state."""
        found = self._table.index_stats(name)
        if found is not None and found.num_unindexed_rows:
            self._compact()
            found = self._table.index_stats(name)
        if found is None or found.num_unindexed_rows:
            raise vt.StoreError(f"not every row is in the index {name}: {found}")
        return found

    def insert(self, batch: pa.RecordBatch) -> None:
        self._table.add(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        merge = self._table.merge_insert("id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        if len(ids):
            self._table.delete(_id_condition(ids))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        if not len(ids):
            return vt.table_of(self._schema, [])
        found = self._table.search().where(_id_condition(ids)).limit(len(ids)).to_arrow()
        batches = found.to_batches()
        return vt.table_of(
            self._schema, (vt.batch_of_columns(self._schema, one) for one in batches)
        )

    def count(self) -> int:
        return int(self._table.count_rows())

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        everything = self._table.search().limit(max(1, self.count()))
        for batch in everything.to_batches(batch_size):
            if batch.num_rows:
                yield vt.batch_of_columns(self._schema, batch)

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        prepared = self._latest_table().query().limit(k).select(["id", "_distance"])
        if where is not None:
            prepared = prepared.where(self._sql(where))
        wait = self._loop.run

        async def ask(vector: NDArray[np.float32]) -> Any:
            # On the loop's thread alone, since `prepared` must not be used by two at once.
            return await self._vector_query(prepared.nearest_to(vector), k, params).to_arrow()

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = wait(ask(vector))
            return found["id"].to_numpy(), found["_distance"].to_numpy()

        return run

    def _vector_query(self, query: Any, k: int, params: vt.Params) -> Any:
        """A search for the k nearest rows with these parameters."""
        query = query.column("vector").distance_type(_DISTANCE[self._schema.metric])
        if not isinstance(params, LanceIvfSearch):
            return query.bypass_vector_index()
        query = query.nprobes(params.nprobe)
        if params.refine_factor is not None:
            query = query.refine_factor(params.refine_factor)
        if isinstance(params, LanceHnswSearch) and params.ef_search is not None:
            query = query.ef(max(params.ef_search, k * (params.refine_factor or 1)))
        return query

    def hybrid_searcher(self, k: int, params: vt.Params, blend: vt.Blend) -> vt.HybridSearcher:
        table, wait, fused = self._latest_table(), self._loop.run, reranker(blend)
        text_column = self._schema.columns[blend.field]
        rows = k if blend.alpha in (0.0, 1.0) else max(k, blend.candidates)

        async def ask(vector: NDArray[np.float32], text: str) -> Any:
            prepared = table.query().limit(rows).select(columns)
            if blend.alpha == 0.0:
                return await prepared.nearest_to_text(text, text_column).to_arrow()
            query = self._vector_query(prepared.nearest_to(vector), rows, params)
            if fused is not None:
                query = query.nearest_to_text(text, text_column).rerank(fused)
            return await query.to_arrow()

        score = {1.0: "_distance", 0.0: "_score"}.get(blend.alpha, "_relevance_score")
        columns = ["id"] if fused is not None else ["id", score]
        sign = np.float32(-1 if blend.alpha == 1.0 else 1)

        def run(vector: NDArray[np.float32], text: str, /) -> vt.Hits:
            found = wait(ask(vector, text))
            return found["id"].to_numpy()[:k], sign * found[score].to_numpy()[:k]

        return run

    def _latest_table(self) -> Any:
        """The current version of the table for the asynchronous API. The synchronous API wraps it
        and costs half as much again per search."""
        if self._async_table is None:
            self._async_table = self._loop.run(self._open_async())
        self._loop.run(self._async_table.checkout_latest())
        return self._async_table

    async def _open_async(self) -> Any:
        connection = await self._lancedb.connect_async(self.location, session=self._session)
        return await connection.open_table(_TABLE)

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        found = self._table.search().where(self._sql(where)).select(["id"]).limit(limit).to_arrow()
        return np.asarray(found["id"].to_numpy())

    def _sql(self, where: vt.Filter) -> str:
        return vt.literal(vt.on_columns(where, self._schema), _quote_column)


def _quote_column(name: str) -> str:
    """A column name as DataFusion reads it: Lance wants backticks."""
    return f"`{name}`"


def _id_condition(ids: NDArray[np.int64]) -> str:
    return f"id IN ({', '.join(map(str, ids.tolist()))})"
