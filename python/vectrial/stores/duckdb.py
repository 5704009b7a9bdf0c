"""DuckDB with its vector similarity extension (vss), in this process.

The facts below were tested with duckdb 1.5.5 and vss of the same release. The extension's file
comes in a Python package and is loaded from there: nothing is downloaded or installed.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt

_FILE = "rows.duckdb"
#: Bytes of a batch that is read.
_READ_BYTES = 16 << 20
_METRIC = {vt.Metric.L2: "l2sq", vt.Metric.COSINE: "cosine", vt.Metric.IP: "ip"}
_FUNCTION = {
    vt.Metric.L2: "array_distance",
    vt.Metric.COSINE: "array_cosine_distance",
    vt.Metric.IP: "array_negative_inner_product",
}


class VssBuild(vt.Params):
    """m, ef_construction: parameters of the graph; the lowest layer has 2·m links."""

    m: int = Bound(default=16, ge=2, le=1024)
    ef_construction: int = Bound(default=128, ge=1, le=100_000)


class VssSearch(vt.Params):
    """ef_search: candidates held during the search."""

    ef_search: int = Bound(default=64, ge=1, le=1_000_000)


class DuckDB(vt.Store):
    """One table with the id as its primary key and, under `hnsw`, an index of vss.

    Under `hnsw` a filter would be applied to the k rows that the index returns, so that fewer
    come back than exist: filtered search is declared for `flat` alone, which has no index.
    """

    name: ClassVar[str] = "duckdb"
    title: ClassVar[str] = "DuckDB with vss"
    module: ClassVar[str | None] = "duckdb_extension_vss"
    extra: ClassVar[str | None] = "duckdb-vss"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.NEGATIVE_INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                VssBuild,
                VssSearch,
                high_recall_params={"ef_search": 512},
                filters=frozenset(),
                unsupported=frozenset({"concurrent_search", "persistent"}),
            ),
            "flat": vt.IndexKind(exact=True),
        },
        # It multiplies the squares of two lengths as float32: these are from 2^-126 to 2^128.
        norms=(2.0**-31.5, 2.0**31.5),
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        refuses_duplicates=True,
        hybrid="has no full-text search here: its extension fts is in no package",
        caveats=(
            "under hnsw a filter would only thin out the k rows of the index: not offered",
            "keeping an hnsw index on disk is experimental, and searches missed their rows once it"
            " was opened again: not offered",
            "deleted and replaced rows stay in the hnsw index even when it is compacted: to wait"
            " for the index is then to build it anew",
            "a search uses one thread, a build every core",
            "under hnsw, searches from several threads, each on a connection of its own, crash the"
            " process: not offered",
            "every search is planned anew: a query vector is a parameter of SQL",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import duckdb

        self._duckdb = duckdb
        self._extension = _extension(duckdb.__version__)
        self._connection: Any = None
        self._cursors: list[Any] = []
        self._lock = threading.Lock()

    def version(self) -> str:
        return str(self._duckdb.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._connect(schema, index)
        columns = [f"{schema.columns[f.name]} {vt.SQL_TYPES[f.type]}" for f in schema.fields]
        columns = ["id BIGINT PRIMARY KEY", f"vector FLOAT[{schema.dim}] NOT NULL", *columns]
        self._connection.execute(f"CREATE TABLE rows ({', '.join(columns)})")

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._connect(schema, index)

    def _connect(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema, self._index = schema, index
        self._connection = self._duckdb.connect(
            str(self.location / _FILE),
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        self._connection.execute(f"LOAD '{self._extension}'")
        self._connection.execute("SET hnsw_enable_experimental_persistence = true")

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()
        self._cursors = []
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def drop(self) -> None:
        self.close()
        for path in self.location.glob(f"{_FILE}*"):
            path.unlink()

    def flush(self) -> None:
        self._connection.execute("CHECKPOINT")

    def build(self) -> None:
        build = self._index.params
        if not isinstance(build, VssBuild):
            return
        self._connection.execute("RESET threads")
        self._connection.execute("DROP INDEX IF EXISTS rows_hnsw")
        self._connection.execute(
            f"CREATE INDEX rows_hnsw ON rows USING HNSW (vector)"
            f" WITH (metric = '{_METRIC[self._schema.metric]}', M = {build.m},"
            f" ef_construction = {build.ef_construction})"
        )
        self._connection.execute("CHECKPOINT")

    def wait_indexed(self) -> str:
        if self._index.kind == "hnsw" and self._index_info()[0] != self.count():
            self.build()
        plan = self._plan()
        if self._index.kind == "flat":
            if "HNSW_INDEX_SCAN" in plan:
                raise vt.StoreError("an exact search would use an index")
            return "there is no index; EXPLAIN shows a scan of the table"
        indexed, rows = self._index_info()[0], self.count()
        if indexed != rows:
            raise vt.StoreError(f"the index has {indexed} vectors for {rows} rows")
        if rows and "HNSW_INDEX_SCAN" not in plan:
            raise vt.StoreError(f"searches do not use the index: {plan}")
        return f"EXPLAIN shows HNSW_INDEX_SCAN; the index has {indexed} vectors for {rows} rows"

    def _plan(self) -> str:
        vector = np.zeros(self._schema.dim, np.float32)
        found = self._connection.execute(f"EXPLAIN {self._search_sql(10)}", [vector.tolist()])
        return "\n".join(str(row[1]) for row in found.fetchall())

    def _index_info(self) -> tuple[int, int]:
        """Number of vectors and bytes in memory."""
        found = self._connection.execute(
            "SELECT count, approx_memory_usage FROM pragma_hnsw_index_info()"
        ).fetchone()
        if found is None:
            raise vt.StoreError("there is no index")
        return int(found[0]), int(found[1])

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write("INSERT INTO rows SELECT * FROM batch", batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write("INSERT OR REPLACE INTO rows SELECT * FROM batch", batch)

    def _write(self, statement: str, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        self._connection.register("batch", pa.Table.from_batches([batch]))
        self._connection.execute(statement)
        self._connection.unregister("batch")

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._connection.execute("DELETE FROM rows WHERE id IN (SELECT unnest(?))", [ids.tolist()])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = self._connection.execute(
            "SELECT * FROM rows WHERE id IN (SELECT unnest(?))", [ids.tolist()]
        )
        batches = found.to_arrow_table(self._read_batch_rows()).to_batches()
        return vt.table_of(
            self._schema, (vt.batch_of_columns(self._schema, one) for one in batches)
        )

    def _read_batch_rows(self) -> int:
        """Rows to read in one batch. DuckDB allocates memory for a whole batch however few rows
        there are, and its default batch is a million rows."""
        return max(1, _READ_BYTES // (4 * self._schema.dim))

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        found = self._cursor().execute("SELECT * FROM rows")
        for batch in found.to_arrow_reader(min(batch_size, self._read_batch_rows())):
            if batch.num_rows:
                yield vt.batch_of_columns(self._schema, batch)

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        self._connection.execute("SET threads = 1")
        clause, values = ("", []) if where is None else self._condition(where)
        question = self._search_sql(k, f"WHERE {clause}" if clause else "")
        ef = params.ef_search if isinstance(params, VssSearch) else None
        own = threading.local()

        def connection() -> Any:
            """This thread's own connection: a connection runs one query at a time."""
            own.cursor = cursor = self._cursor()
            if ef is not None:
                cursor.execute(f"SET hnsw_ef_search = {ef}")
            return cursor

        connection()

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            cursor = getattr(own, "cursor", None) or connection()
            found = cursor.execute(question, [vector.tolist(), *values]).fetchnumpy()
            return found["id"], found["score"]

        return run

    def _cursor(self) -> Any:
        with self._lock:
            cursor = self._connection.cursor()
            self._cursors.append(cursor)
            return cursor

    def _search_sql(self, k: int, clause: str = "") -> str:
        distance = f"{_FUNCTION[self._schema.metric]}(vector, ?::FLOAT[{self._schema.dim}])"
        return f"SELECT id, {distance} AS score FROM rows {clause} ORDER BY score LIMIT {k}"

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        clause, values = self._condition(where)
        found = self._connection.execute(
            f"SELECT id FROM rows WHERE {clause} LIMIT {limit}", values
        )
        return np.asarray(found.fetchnumpy()["id"])

    def _condition(self, where: vt.Filter) -> tuple[str, list[vt.Value]]:
        return vt.condition(vt.renamed(where, self._schema.columns))

    def footprint(self) -> vt.Footprint:
        if self._index.kind == "flat":
            return vt.Footprint()
        return vt.Footprint(index_bytes=self._index_info()[1])


def _extension(version: str) -> Path:
    """The extension's file, in its Python package, for this version of DuckDB."""
    spec = importlib.util.find_spec("duckdb_extension_vss")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "extensions"
        for path in folder.glob(f"v{version}/vss.duckdb_extension"):
            return path
    raise vt.NotInstalled(
        f"vss for duckdb {version} is missing: pip install 'vectrial[duckdb-vss]'"
    )
