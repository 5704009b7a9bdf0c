"""Full-text indexes of the Flight reference server, by Tantivy.

Tantivy ranks by BM25 as Lucene does (k1 = 1.2, b = 0.75, an idf that is never negative). It was
chosen because it has no line in common with `vectrial.model.fusion`, by which answers are judged,
so that an error of either shows; takes single rows in and out; and does not score every row to find
the best. SQLite's FTS5 needs no package, but scores every row that has a word of the query (of
50,000 package descriptions that took 32 ms in the median, and Tantivy 0.3), and has another idf, by
which words of half of the rows weigh nothing.

An index is in memory, and made again from the rows when these are read from the disk. A put hands
texts to Tantivy's thread; they are found after a commit, which the first search by text after a
write makes and pays for, unless `check_readiness` has. Rows that were replaced or deleted count in
how rare a word is, as in Lucene, until Tantivy merges what it wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tantivy
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.model.fusion import Fusion, RankedRows
from vectrial.model.fusion import fuse as fuse_rankings
from vectrial.model.schema import Schema
from vectrial.stores.common.arrow import ids_of

#: The ranking of a side without weight.
NOTHING = RankedRows(np.empty(0, np.int64), np.empty(0, np.float64))
_ID = "id"
#: Name of the tokenizer of texts: runs of letters and digits, in lower case.
_WORDS = "words"
#: Bytes of texts that are held before a part of the index is made of them.
_HEAP_BYTES = 64_000_000


@dataclass(frozen=True)
class TextQuery:
    """The members of a search by vector and text, beside the vector.

    text: rows with any of its words take part. alpha: weight of the vector, 0 … 1. column: that
    holds the texts; None: the only one that has an index. candidates: rows that each side brings.
    """

    text: str
    alpha: float
    column: str | None
    candidates: int

    @staticmethod
    def parse(members: Mapping[str, Any], k: int) -> TextQuery | None:
        """The text query in the members of a search; None if it has no text.

        Raises:
            StoreError: α is not a weight, or there are filters, which Longbow then ignores.
        """
        if not members.get("text_query"):
            return None
        alpha = float(members.get("alpha", 0.0))
        if not 0 <= alpha <= 1:
            raise StoreError(f"alpha is a weight between 0 and 1, and not {alpha:g}")
        if members.get("filters"):
            raise StoreError("a search by text takes no filters")
        candidates = max(k, int(members.get("candidates", 2 * k)))
        return TextQuery(str(members["text_query"]), alpha, members.get("text_field"), candidates)

    def fuse(self, dense: RankedRows, text: RankedRows, k: int) -> RankedRows:
        """The k best rows of both rankings, by reciprocal ranks. At α = 1 and 0 they are those of
        one side, with its scores."""
        if self.alpha in (0.0, 1.0):
            only = dense if self.alpha else text
            return RankedRows(only.rows[:k], only.scores[:k])
        both = fuse_rankings(dense, text, self.alpha, Fusion.RECIPROCAL_RANK)
        return RankedRows(both.rows[:k], both.scores[:k])


class Texts:
    """The words of the fields of a schema that have `text`, by the ids of rows. Writes come one at
    a time; searches from any thread."""

    def __init__(self, schema: Schema) -> None:
        columns = [field.name for field in schema.fields if field.text]
        self._names = {column: f"text{at}" for at, column in enumerate(columns)}
        self._columns = schema.columns
        builder = tantivy.SchemaBuilder().add_integer_field(_ID, indexed=True, fast=True)
        for name in self._names.values():
            builder.add_text_field(name, tokenizer_name=_WORDS, index_option="freq")
        self._schema = builder.build()
        simple = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        self._words = simple.filter(tantivy.Filter.lowercase()).build()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_WORDS, self._words)
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        self._indexed: set[int] = set()
        self._written = False
        self._committing = threading.Lock()

    def put(self, rows: pa.RecordBatch) -> None:
        """Index the texts of rows, replacing texts with the same ids."""
        self._written = True
        last = {id_: at for at, id_ in enumerate(ids_of(rows).tolist())}
        self._remove(last)
        texts = [
            (name, rows.column(self._columns[field]).to_pylist())
            for field, name in self._names.items()
        ]
        for id_, at in last.items():
            document = tantivy.Document()
            document.add_integer(_ID, id_)
            for name, values in texts:
                if text := values[at]:
                    document.add_text(name, text)
            self._writer.add_document(document)
        self._indexed.update(last)

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Remove the texts of rows; absent ids are ignored."""
        self._written = True
        gone = ids.tolist()
        self._remove(gone)
        self._indexed.difference_update(gone)

    def _remove(self, ids: Iterable[int]) -> None:
        for id_ in self._indexed.intersection(ids):
            self._writer.delete_documents_by_term(_ID, id_)

    def commit(self) -> None:
        """Make everything written so far searchable."""
        if not self._written:
            return
        with self._committing:
            if self._written:
                self._writer.commit()
                self._index.reload()
                self._written = False

    def best(self, column: str | None, text: str, most: int) -> RankedRows:
        """The `most` best rows that have any word of a text, with their BM25 scores; a word that
        occurs twice counts twice.

        Raises:
            StoreError: the column has no index, or the search must name one.
        """
        name = self._names.get(self._column(column))
        if name is None:
            raise StoreError(f"column '{column}' has no full-text index")
        self.commit()
        words = [
            tantivy.Query.term_query(self._schema, name, word, "freq")
            for word in self._words.analyze(text)
        ]
        searcher = self._index.searcher()
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, word) for word in words])
        hits = searcher.search(query, most, count=False).hits
        ids = np.array(searcher.fast_field_values(_ID, [at for _, at in hits]), np.int64)
        scores = np.array([score for score, _ in hits], np.float64)
        order = np.lexsort((ids, -scores))
        return RankedRows(ids[order], scores[order])

    def _column(self, column: str | None) -> str:
        if column is not None:
            return column
        if len(self._names) != 1:
            known = ", ".join(self._names) or "none"
            raise StoreError(f"text_field names a column with a full-text index: {known}")
        return next(iter(self._names))
