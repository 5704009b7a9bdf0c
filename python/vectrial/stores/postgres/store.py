"""PostgreSQL with pgvector, driven by psycopg; the server is `vectrial.stores.postgres.server`.

The facts below hold for PostgreSQL 18.6, pgvector 0.8.6, psycopg 3.3.9 and pgvector-python 0.5.1:
they were read in the sources and tested.

A collection is a table with the columns `id` (its primary key), `vector`, and `f0`, `f1`, … for
the schema's fields in their order. Both lanes send the same SQL, with a filter's values written
out and the query as the one parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.postgres import existing as pgvector_existing
from vectrial.stores.postgres import sql
from vectrial.stores.postgres import text as pgvector_text
from vectrial.stores.postgres.sessions import Sessions, has_replayed
from vectrial.stores.postgres.sql import PgHnswBuild, PgHnswSearch, PgIvfBuild, PgIvfSearch

#: Rows of one request that reads or deletes.
_ROWS = 1_000
#: Dimensions that an index can have.
_INDEXED_DIM = 2_000
_COMMIT = {vt.Durability.SYNCED: "on", vt.Durability.BUFFERED: "off"}


class PgVector(vt.ServerStore):
    """One table in a database."""

    name = "pgvector"
    title = "PostgreSQL + pgvector"
    collection_pattern = "vectrial_{}"
    native_port = "postgres"
    module = "psycopg"
    extra = "pgvector"
    server = "vectrial.stores.postgres.server:POSTGRES"
    tested = ("18.6 + pgvector 0.8.",)
    protocol = "postgres"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.NEGATIVE_INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                PgHnswBuild,
                PgHnswSearch,
                high_recall_params={"ef_search": 1000, "iterative_scan": "strict_order"},
                most_dim=_INDEXED_DIM,
            ),
            "ivf_flat": vt.IndexKind(
                PgIvfBuild,
                PgIvfSearch,
                high_recall_params={"nprobe": 1024, "iterative_scan": "relaxed_order"},
                most_dim=_INDEXED_DIM,
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        nul_in_text=False,
        most_dim=16_000,
        payload_index=True,
        persistent=True,
        concurrent_search=True,
        clusters=True,
        primary=True,
        refuses_duplicates=True,
        returns=frozenset(vt.Returning),
        buffered_s=1.0,  # three times wal_writer_delay, 200 ms
        durability={
            vt.Durability.SYNCED: "synchronous_commit = on, fsync = on",
            vt.Durability.BUFFERED: "synchronous_commit = off, fsync = on",
        },
        hybrid=pgvector_text.HYBRID,
        existing=vt.Attaching(defaults=True, condition="deleted_at IS NULL"),
        caveats=(
            "the graph or the lists are built by CREATE INDEX after the load, not while it goes on",
            "the planner would rather scan small tables: for hnsw and ivf_flat enable_seqscan is"
            " off",
            "under a selective filter the planner may take the filter's own index and sort what it"
            " finds, which is exact",
            "under a filter hnsw goes on with strict_order and ivf_flat with relaxed_order, sorted"
            " afterwards, unless iterative_scan says otherwise; without one they do not go on",
            "hnsw finds at most ef_search rows where it does not go on; where it does, it ends"
            " after max_scan_tuples candidates, or when these take scan_mem_multiplier times"
            " work_mem, which by default comes first",
            "indexes take up to 2,000 dimensions; vectors of more than about 500 are kept outside"
            " the table's pages (TOAST)",
            "upsert writes a new version of a row; the old one is in the index until VACUUM, which"
            " wait_indexed runs",
            "a cluster is one node that takes writes, and standbys that follow its log, each with"
            " all rows: searches of the native lane go to all of them, and may miss the last"
            " writes; those of the Python client go to the first",
        ),
    )

    def _connect(self, address: vt.Address) -> Sessions:
        self._place = sql.TableNames(self._name)
        self._rows_with = ""
        return Sessions(address)

    def describe(self, existing: vt.Existing) -> vt.Description:
        import psycopg

        try:
            return pgvector_existing.find_table(self._sql, existing).description
        except psycopg.Error as error:
            why = str(error).strip().partition("\n")[0]
            raise vt.UserError(f"'{existing.collection}' cannot be read: {why}") from error

    def _attach(self) -> None:
        metric = self._schema.metric
        wanted = vt.Existing(
            self._name,
            self._id_name,
            self._vector_name,
            metric=metric,
            where=self._own_condition,
        )
        self._place = pgvector_existing.find_table(self._sql, wanted).place
        self._vector_name = self._place.vector
        # Rows without a vector are in no index, and in no answer.
        self._rows_with = f" WHERE {self._place.with_vector}"
        self._settings: dict[str, str] = {}

    def version(self) -> str:
        server = self._sql("SHOW server_version").fetchone()[0].split()[0]
        found = self._sql("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        return f"{server} + pgvector {found[0]}"

    def _create(self) -> None:
        self._sql(sql.create(self._name, self._schema, pgvector_text.columns(self._schema)))

    def _exists(self) -> bool:
        return self._sql(f"SELECT to_regclass('{self._name}')").fetchone()[0] is not None

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        super()._bind(schema, index)
        commit = _COMMIT[self.durability or vt.Durability.SYNCED]
        self._settings = {"synchronous_commit": commit}

    def drop(self) -> None:
        self._sql(f"DROP TABLE IF EXISTS {self._name}")

    def flush(self) -> None:
        """Run a checkpoint: everything committed is then on disk and in the tables."""
        self._sql("CHECKPOINT")

    def build(self) -> None:
        params = self._index.params
        with self._client.main.transaction():
            if isinstance(params, PgHnswBuild | PgIvfBuild):
                for name, value in params.session().items():
                    self._sql(f"SELECT set_config('{name}', '{value}', true)")
            for statement in sql.build(self._name, self._schema, params):
                self._sql(statement)
            for statement in pgvector_text.indexes(self._name, self._schema):
                self._sql(statement)

    def wait_indexed(self) -> str:
        """Remove dead row versions from the indexes and update the planner's statistics (`VACUUM
        ANALYZE`). Then check that the index is valid, that a search's plan uses it, and that
        standbys show all rows.

        Raises:
            StoreError: `build` was not called, the index is not used, or a standby does not follow.
        """
        self._sql(f"VACUUM (ANALYZE) {self._name}")
        known = self._known_index()
        position = self._sql("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
        return known + self._wait_followers(lambda node: has_replayed(node, position))

    def _known_index(self) -> str:
        if self._index.kind == "flat":
            return "VACUUM ANALYZE is done; there is no index of the vectors, every row is read"
        name = sql.index_name(self._name)
        valid = self._sql(
            f"SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = "
            f"to_regclass('{name}')"
        ).fetchone()
        if valid is None or not valid[0]:
            raise vt.StoreError(f"there is no valid index {name}: was build called?")
        kind = self.capabilities.indexes[self._index.kind]
        search = sql.TableSearch(self._place, self._schema, 1, kind.search(), None, ())
        session = self._client.connection(search.settings())
        zero = np.ones(self._schema.dim, np.float32)
        plan = session.execute(f"EXPLAIN {search.text()}", (zero,)).fetchall()
        if not any(name in line for (line,) in plan):
            raise vt.StoreError(f"a search is not planned over {name}: {plan}")
        return "VACUUM ANALYZE is done, the index is valid, and a search is planned over it"

    def insert(self, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        into = f"COPY {self._name} ({self._columns()}) FROM STDIN (FORMAT binary)"
        types = ["int8", "vector", *(sql.TYPES[field.type] for field in self._schema.fields)]
        with self._writer().cursor().copy(into) as copy:
            copy.set_types(types)
            for row in _rows(batch, self._schema):
                copy.write_row(row)

    def upsert(self, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        statement = sql.upsert(self._name, self._schema)
        session = self._writer()
        with session.transaction(), session.cursor() as cursor:
            cursor.executemany(statement, _rows(batch, self._schema))

    def delete(self, ids: NDArray[np.int64]) -> None:
        session = self._writer()
        for page in vt.id_pages(ids, _ROWS):
            session.execute(f"DELETE FROM {self._name} WHERE id = ANY ($1)", (page,))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, _ROWS, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        place = self._place
        asked = place.of_ids if place.own else f"{place.of_ids} AND {place.with_vector}"
        statement = f"SELECT {self._selected_columns()} FROM {place.path} WHERE {asked}"
        return self._batch(self._sql(statement, (self._keys.keys(ids),)).fetchall())

    def count(self) -> int:
        counted = f"SELECT count(*) FROM {self._place.path}{self._rows_with}"
        return int(self._sql(counted).fetchone()[0])

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Read all rows through a server-side cursor, in one transaction."""
        cursor = "vectrial_scan"
        session = self._client.main
        with session.transaction():
            every = f"SELECT {self._selected_columns()} FROM {self._place.path}{self._rows_with}"
            self._sql(f"DECLARE {cursor} NO SCROLL CURSOR FOR {every}")
            while page := self._sql(f"FETCH {batch_size} FROM {cursor}").fetchall():
                yield self._batch(page)

    def _columns(self) -> str:
        return ", ".join(["id", "vector", *self._names.values()])

    def _selected_columns(self) -> str:
        """The SQL of what is read from a row."""
        place = self._place
        return ", ".join(
            [place.id_column, place.vector_output, *map(vt.quoted, self._names.values())]
        )

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True)) or [()] * (2 + len(self._names))
        vectors = [vector.to_numpy() for vector in columns[1]]
        return vt.batch_of(
            self._schema,
            self._keys.ids(columns[0]),
            np.array(vectors, np.float32).reshape(-1, self._schema.dim),
            dict(zip(self._names, columns[2:], strict=True)),
        )

    def _sql(self, text: str, values: tuple[Any, ...] = ()) -> Any:
        return self._client.main.execute(text, values, binary=True)

    def _writer(self) -> Any:
        """This thread's connection for writes."""
        return self._client.connection(self._settings)

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        search = self._search(request)
        text, settings, sessions = search.text(), search.settings(), self._client
        sessions.connection(settings)  # connected before the clock starts
        ids_of = self._keys.ids

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = sessions.connection(settings).execute(
                text, (vector,), prepare=True, binary=True
            )
            rows = found.fetchall()
            ids = ids_of([row[0] for row in rows])
            return ids, np.fromiter((row[1] for row in rows), np.float32, len(rows))

        return run

    def hybrid_searcher(self, k: int, params: vt.Params, blend: vt.Blend) -> vt.HybridSearcher:
        near = self._search(vt.SearchRequest(k, params))
        column = f"t{self._names[blend.field][1:]}"
        search = pgvector_text.TextAndVectorSearch(near, column, blend)
        text, settings, sessions = search.text(), search.settings(), self._client
        sessions.connection(settings)

        def run(vector: NDArray[np.float32], words: str, /) -> vt.Hits:
            values: tuple[Any, ...] = (vector, pgvector_text.any_word_query(words))
            if blend.alpha in (0.0, 1.0):
                values = values[:1] if blend.alpha else values[1:]
            found = sessions.connection(settings).execute(text, values, prepare=True, binary=True)
            rows = found.fetchall()
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            return ids, np.fromiter((row[1] for row in rows), np.float32, len(rows))

        return run

    def _search(self, request: vt.SearchRequest) -> sql.TableSearch:
        further = {
            vt.Returning.IDS: (),
            vt.Returning.METADATA: tuple(self._names.values()),
            vt.Returning.VECTORS: (self._vector_name,),
        }[request.returning]
        where = None if request.where is None else self._condition(request.where)
        condition = self._place.within(where) or None
        return sql.TableSearch(
            self._place, self._schema, request.k, request.params, condition, further
        )

    def _condition(self, where: vt.Filter) -> str:
        named = vt.renamed(vt.coerce_values(where, self._schema), self._names)
        return vt.literal(named)

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        search = self._search(request)
        condition = search.condition
        return vt.NativeSearch(
            self._session_target(search.settings()),
            search.options(),
            None if condition is None else condition.encode(),
        )

    def native_rows(self) -> vt.NativeRows:
        fields = ",".join(["vector", *self._names.values()])
        options = {"table": self._name, "fields": fields}
        return vt.NativeRows(self._session_target(self._settings), options, self._names)

    def _session_target(self, settings: dict[str, str]) -> vt.LoadTarget:
        from vectrial.stores.postgres.server import DATABASE, USER

        options = {"user": USER, "database": DATABASE, **self._address.secrets}
        if self._address.read_only:
            options["set.default_transaction_read_only"] = "on"
        if self._client.search_path is not None:
            options["set.search_path"] = self._client.search_path
        return self._target(options | {f"set.{name}": value for name, value in settings.items()})

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        place, asked = self._place, self._condition(where)
        if not place.own:
            asked = f"({asked}) AND {place.with_vector}"
        rows = self._sql(
            f"SELECT {place.id_column} FROM {place.path} WHERE {asked} LIMIT {limit}"
        ).fetchall()
        return self._keys.ids([row[0] for row in rows])

    def footprint(self) -> vt.Footprint:
        path = self._place.path
        if self._sql("SELECT to_regclass($1)", (path,)).fetchone()[0] is None:
            return vt.Footprint()
        sizes = "SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)"
        raw, index = self._sql(sizes, (path,)).fetchone()
        return vt.Footprint(raw_bytes=int(raw), index_bytes=int(index))


def _rows(batch: pa.RecordBatch, schema: vt.Schema) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples, with values in the table's column order."""
    columns = vt.columns_of(batch, schema).values()
    yield from zip(vt.ids_of(batch).tolist(), vt.vectors_of(batch), *columns, strict=True)
