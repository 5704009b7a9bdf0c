"""SQLite with sqlite-vec: vectors in a vec0 virtual table, exact search inside SQLite.

Metadata are in an ordinary table with SQL indexes, and a filtered search restricts vec0 to `id IN
(SELECT id FROM rows WHERE ...)`, which vec0 evaluates before it compares vectors. Its own metadata
columns are not used: they take no null, and under OR or NOT vec0 0.1.9 filters the k nearest rows
afterwards, so answers are too short.

If Python was built without loadable extensions, `pysqlite3-binary` replaces `sqlite3`; it has its
own, usually newer, SQLite.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.sqlite.table import DURABILITY, SqliteFile, blobs

_MEASURES = {vt.Metric.L2: "l2", vt.Metric.COSINE: "cosine"}
#: The most neighbours that vec0 answers with.
_MOST = 4096


class SqliteVecStore(SqliteFile):
    """One SQLite file: a vec0 table of vectors, a plain table of metadata."""

    name: ClassVar[str] = "sqlite-vec"
    title: ClassVar[str] = "SQLite with sqlite-vec"
    module: ClassVar[str | None] = "sqlite_vec"
    extra: ClassVar[str | None] = "sqlite-vec"
    vectors_in = "vectors"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={vt.Metric.L2: vt.ScoreKind.L2, vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE},
        indexes={"flat": vt.IndexKind(exact=True, recall_floor=0.999)},
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        most_dim=8192,
        most_k=_MOST,
        payload_index=True,
        persistent=True,
        durability=DURABILITY,
        concurrent_search=True,
        refuses_duplicates=True,
        hybrid="has no full-text index of its own; SQLite's FTS5 beside it is not asked for",
        caveats=(
            "metadata lies in an ordinary table; a filter is a subquery that vec0 evaluates first",
            f"k is at most {_MOST}",
            "each thread has a connection of its own, made with its first search",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location, _driver())
        self._extension = import_module("sqlite_vec")

    def version(self) -> str:
        connection = self._driver.connect(":memory:")
        self._prepare(connection)
        (vec,) = connection.execute("SELECT vec_version()").fetchone()
        connection.close()
        return f"{vec.removeprefix('v')} (SQLite {self._driver.sqlite_version})"

    def _prepare(self, connection: Any) -> None:
        connection.enable_load_extension(True)
        self._extension.load(connection)
        connection.enable_load_extension(False)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        super().create(schema, index)
        measure = _MEASURES[schema.metric]
        with self._connection() as connection:
            connection.execute(
                "CREATE VIRTUAL TABLE vectors USING vec0"
                f"(id INTEGER PRIMARY KEY, vector FLOAT[{schema.dim}] distance_metric={measure})"
            )

    def _after_insert(self, connection: Any, batch: pa.RecordBatch) -> None:
        pairs = zip(vt.ids_of(batch).tolist(), blobs(vt.vectors_of(batch)), strict=True)
        connection.executemany("INSERT INTO vectors (id, vector) VALUES (?, ?)", pairs)

    def _after_delete(self, connection: Any, ids: NDArray[np.int64]) -> None:
        connection.executemany("DELETE FROM vectors WHERE id = ?", [(i,) for i in ids.tolist()])

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        connect = self._connection
        statement = "SELECT id, distance FROM vectors WHERE vector MATCH ? AND k = ?"
        values: list[vt.Value] = []
        if where is not None:
            text, values = self._condition(where)
            statement += f" AND id IN (SELECT id FROM rows WHERE {text})"

        def search(vector: NDArray[np.float32], /) -> vt.Hits:
            rows = connect().execute(statement, (vector.data, k, *values)).fetchall()
            return (
                np.array([row[0] for row in rows], np.int64),
                np.array([row[1] for row in rows], np.float32),
            )

        return search


def _driver() -> Any:
    """A module like `sqlite3` whose connections can load extensions."""
    for name in ("sqlite3", "pysqlite3"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        if hasattr(module.Connection, "enable_load_extension"):
            return module
    raise vt.NotInstalled(
        "this Python's sqlite3 cannot load extensions: pip install 'vectrial[sqlite-vec]'"
    )
