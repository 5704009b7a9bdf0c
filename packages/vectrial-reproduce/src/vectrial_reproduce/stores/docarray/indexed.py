"""The base of DocumentArrays over a database that has an index.

A row is a Document under its id in decimal digits: DocArray writes it whole, serialised, as one
value beside the vector and the columns that can be filtered by, and a search brings the whole
Documents of its answer back. Beside the database, a DocumentArray has a list of the ids in their
order. Documents that another DocumentArray wrote are not in the list, so they are in no answer
here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial_reproduce.stores.docarray.documents import ids_of, to_batch, to_documents
from vectrial_reproduce.stores.docarray.store import DocumentArrayStore

#: Columns by the names that DocArray has for their types, where it has no truth values: these are
#: kept as 0 and 1. Text is left out where a database would take it apart into words.
NUMBERS = {vt.FieldType.INT: "int", vt.FieldType.FLOAT: "float", vt.FieldType.BOOL: "int"}
#: Conditions on such columns. No check of the conformance suite has an "or" of numbers alone.
OPERATORS = vt.ALL_OPERATORS - {"or"}
#: Caveats of all of them.
CAVEATS = (
    "every search and find brings whole Documents, from which their ids are read",
    "building Documents out of rows is a part of every load",
    "no scan: a DocumentArray goes through its rows by a list of ids that it keeps itself, one"
    " delete of which takes as long as the list is",
)
#: Caveats of those over a server.
SERVED_CAVEATS = (
    "a read that fails is for DocArray a row that is not there",
    "there is no flush: writes are as durable as the server makes them by itself",
)


class IndexedDocumentArray(DocumentArrayStore):
    """A DocumentArray over a database with an index.

    storage: DocArray's name of the database. score: the name of scores in its answers.
    """

    storage: ClassVar[str]
    score: str

    def __init__(self, location: Path, address: vt.Address | None = None) -> None:
        super().__init__(location, address)
        #: Ids that were written here: these are known to be there without a request.
        self._written: set[str] = set()

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The DocumentArray's settings; `_schema` and `_index` are set."""

    @abstractmethod
    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        """The DocumentArray's `find` with these settings, for a vector and perhaps a filter."""

    @abstractmethod
    def _condition(self, where: vt.Filter) -> Any:
        """`where` as the filter that DocArray passes on."""

    def _new(self) -> Any:
        return self._module.DocumentArray(storage=self.storage, config=self._config())

    def _columns(self, types: dict[vt.FieldType, str]) -> dict[str, str]:
        """DocArray's types of the columns that the database should know."""
        return {
            self._schema.columns[field.name]: types[field.type] for field in self._schema.fields
        }

    def insert(self, batch: pa.RecordBatch) -> None:
        self._extend(to_documents(batch, self._schema))

    def _extend(self, documents: list[Any]) -> None:
        if documents:
            self._rows.extend(documents)
            self._written.update(document.id for document in documents)

    def upsert(self, batch: pa.RecordBatch) -> None:
        new = []
        for document in to_documents(batch, self._schema):
            if document.id in self._written or document.id in self._rows:
                self._replace(document)
            else:
                new.append(document)
        self._extend(new)

    def _replace(self, document: Any) -> None:
        self._rows[document.id] = document

    def delete(self, ids: NDArray[np.int64]) -> None:
        for id_ in map(str, ids.tolist()):
            self._written.discard(id_)
            try:
                del self._rows[id_]
            except ValueError:  # it is not in this DocumentArray's list
                self._rows._del_doc_by_id(id_)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = self._find_documents(list(map(str, ids.tolist())))
        return vt.table_of(self._schema, [to_batch(found, self._schema)])

    def _find_documents(self, ids: list[str]) -> list[Any]:
        if not ids:
            return []
        try:
            return list(self._rows[ids])
        except KeyError:  # one of them is not there
            found = []
            for id_ in ids:
                with suppress(KeyError):
                    found.append(self._rows[id_])
            return found

    def scan(self, batch_size: int = 10_000) -> Any:
        raise vt.Unsupported(f"{self.name} has no scan")

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        if where is not None and not self.capabilities.filters:
            raise vt.Unsupported(f"{self.name} does not search under a filter")
        find, score = self._finder(k, params), self.score
        arguments = {} if where is None else {"filter": self._condition(where)}
        declared = self._declared_scores

        def search_one(vector: NDArray[np.float32], /) -> vt.Hits:
            found = find(vector, limit=k, **arguments)
            scores = (document.scores[score].value for document in found)
            return ids_of(found), declared(np.fromiter(scores, np.float64, len(found)))

        return search_one

    def _declared_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scores (k,) of an answer, converted to what `capabilities.scores` declares."""
        return scores.astype(np.float32)

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        return ids_of(self._rows.find(filter=self._condition(where), limit=limit))


class ServedDocumentArray(IndexedDocumentArray):
    """A DocumentArray over a server: the one that the database's own store declares.

    collection_pattern: pattern of the collection's name, around 20 hexadecimal digits.
    """

    kind = "server"
    collection_pattern: ClassVar[str]

    def __init__(self, location: Path, address: vt.Address | None = None) -> None:
        super().__init__(location, address)
        if address is None:
            raise vt.StoreError(f"{self.name} needs the address of a server")
        self._address = address
        self._name = vt.collection_name(self.collection_pattern, location)
        self._client: Any = self._connect(address)

    @abstractmethod
    def _connect(self, address: vt.Address) -> Any:
        """A client for what DocArray does not do. DocArray makes its own."""

    @abstractmethod
    def _exists(self) -> bool:
        """True if the server has the collection."""

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self.drop()  # a killed run left it behind
        super().create(schema, index)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        if not self._exists():
            raise vt.StoreError(f"the server has no collection {self._name}")
        self._schema, self._index = schema, index
        self._rows = self._new()
