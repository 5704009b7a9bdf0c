"""DocArray on AnnLite, which `annlite` measures by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vectrial.stores import common as vt
from vectrial_reproduce.stores.docarray.annlite import (
    METRICS,
    NORMS,
    AnnLiteHnswBuild,
    AnnLiteHnswSearch,
    AnnLiteStore,
)
from vectrial_reproduce.stores.docarray.documents import to_query
from vectrial_reproduce.stores.docarray.indexed import CAVEATS, IndexedDocumentArray

#: AnnLite's own types of columns; truth values are kept as 0 and 1.
_COLUMNS = {
    vt.FieldType.INT: "int",
    vt.FieldType.BOOL: "int",
    vt.FieldType.FLOAT: "float",
    vt.FieldType.STRING: "str",
}


class DocArrayAnnLite(IndexedDocumentArray):
    """A DocumentArray on an AnnLite of its own, in one folder."""

    name = "docarray-annlite"
    title = "DocArray on AnnLite"
    storage = "annlite"
    capabilities = vt.Capabilities(
        scores=AnnLiteStore.capabilities.scores,
        indexes=AnnLiteStore.capabilities.indexes,
        find=AnnLiteStore.capabilities.find,
        find_brings_rows=True,
        field_types=frozenset(_COLUMNS),
        nulls=True,
        norms=NORMS,
        persistent=True,
        scan=False,
        caveats=(
            *CAVEATS,
            "DocArray can set ef_search at creation only: here it is set in the graph before"
            " each search",
            "a search under a filter is not offered: AnnLite's own ends its walk of the graph"
            " before it has k rows and then raises",
            "an update of a row with metadata is a delete and an insert, since AnnLite's own"
            " update, which DocArray calls, leaves the filter columns as they were",
            "the graph is in no file: DocArray does not dump it, and it is built anew when a"
            " collection is opened",
            "every search and every find by condition first counts all rows of a SQLite table, in"
            " time that grows with them, and looks each result's id up there",
            "every write is synced to disk (RocksDB)",
            "inserts build the graph with all cores",
        ),
    )

    def __init__(self, location: Path, address: vt.Address | None = None) -> None:
        super().__init__(location, address)
        from loguru import logger

        logger.disable("annlite")  # it would log to standard output
        self._folder = location / "annlite"

    def version(self) -> str:
        import annlite

        return f"{super().version()} on AnnLite {annlite.__version__}"

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self.score = METRICS[schema.metric]
        super().create(schema, index)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self.create(schema, index)

    def _config(self) -> dict[str, Any]:
        params = self._index.params
        assert isinstance(params, AnnLiteHnswBuild)
        return {
            "n_dim": self._schema.dim,
            "metric": METRICS[self._schema.metric],
            "data_path": str(self._folder),
            "max_connection": params.m,
            "ef_construction": params.ef_construction,
            "columns": self._columns(_COLUMNS),
        }

    def close(self) -> None:
        if self._rows is not None:
            self._rows._offsetmapping.close()  # a DocumentArray has no public way to close them
            self._rows._annlite.close()
        super().close()

    def drop(self) -> None:
        super().drop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _replace(self, document: Any) -> None:
        if self._schema.fields:
            self.delete(np.array([int(document.id)]))
            self._extend([document])
        else:
            super()._replace(document)

    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        assert isinstance(params, AnnLiteHnswSearch)
        find, graph, ef = self._rows.find, self._rows._annlite.vec_index(0), params.ef_search

        def run(vector: Any, **arguments: Any) -> Any:
            graph.ef_search = ef  # another searcher may differ
            return find(vector, **arguments)

        return run

    def _condition(self, where: vt.Filter) -> dict[str, Any]:
        return to_query(where, self._schema, sql_nulls=True)
