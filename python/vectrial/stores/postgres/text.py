"""The words of a text in PostgreSQL, and the SQL that fuses two rankings.

The facts below hold for PostgreSQL 18.6. It has no BM25: `ts_rank` counts how often a word occurs
in a row, but considers neither how rare the word is nor how long the row is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from vectrial.model.capabilities import Hybrid
from vectrial.model.fusion import RANK_CONSTANT, Blend, Fusion, words
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.stores.postgres.sql import PgHnswSearch, TableSearch

HYBRID = Hybrid(
    fusions=MappingProxyType(
        {
            Fusion.RELATIVE_SCORE: "two WITH queries, the `candidates` nearest vectors and the"
            " `candidates` texts of greatest ts_rank, each scaled to [0, 1] by window functions,"
            " and a FULL JOIN that adds α of the one and 1 - α of the other",
            Fusion.RECIPROCAL_RANK: "the same over 1 / (60 + rank)",
        }
    ),
    text="tsvector of configuration simple (runs of letters and digits, in lower case) with a GIN"
    " index; words joined by |, ordered by ts_rank, which knows neither how rare a word is nor how"
    " long a row",
)
#: Candidates that hnsw can hold.
_MOST = 1_000


def columns(schema: Schema) -> Iterator[str]:
    """The generated columns that hold the words of the fields that ask for a full-text index."""
    for at, field in enumerate(schema.fields):
        if field.text:
            apart = f"regexp_replace(coalesce(f{at}, ''), '[^[:alnum:]]+', ' ', 'g')"
            yield f"t{at} tsvector GENERATED ALWAYS AS (to_tsvector('simple', {apart})) STORED"


def indexes(table: str, schema: Schema) -> Iterator[str]:
    """The statements that index the generated columns."""
    for at, field in enumerate(schema.fields):
        if field.text:
            yield f"CREATE INDEX IF NOT EXISTS {table}_t{at} ON {table} USING gin (t{at})"


def any_word_query(text: str) -> str:
    """The query for rows that contain any word of a text."""
    return " | ".join(f"'{word}'" for word in words(text))


@dataclass(frozen=True)
class TextAndVectorSearch:
    """A search by vector and text, as SQL. near: the search by vector, of k rows. column: that
    holds the words."""

    near: TableSearch
    column: str
    blend: Blend

    @property
    def _rows(self) -> int:
        return max(self.near.k, self.blend.candidates)

    def _dense(self) -> TableSearch:
        params = self.near.params
        if isinstance(params, PgHnswSearch):  # it finds no more rows than it holds candidates
            candidates = min(max(params.ef_search, self._rows), _MOST)
            params = params.model_copy(update={"ef_search": candidates})
        return replace(self.near, k=self._rows, params=params)

    def settings(self) -> dict[str, str]:
        """The connection's settings for this search."""
        return (self.near if self.blend.alpha == 1.0 else self._dense()).settings()

    def text(self) -> str:
        """The SQL of the search; rows are id and score, larger is better. $1 is the vector, and $2
        the words. If one side has no weight, $1 belongs to the other side and there is no $2."""
        alpha = self.blend.alpha
        if alpha == 1.0:
            return f"SELECT id, {self._similarity()} FROM ({self.near.text()}) found"
        if alpha == 0.0:
            return self._words("$1", self.near.k)
        return (
            f"WITH near AS MATERIALIZED ({self._dense().text()}),"
            f" words AS MATERIALIZED ({self._words('$2', self._rows)}),"
            f" v AS (SELECT id, {self._weighted_score(self._similarity())} AS worth FROM near),"
            f" t AS (SELECT id, {self._weighted_score('score')} AS worth FROM words)"
            f" SELECT id, {alpha!r} * coalesce(v.worth, 0) + {1 - alpha!r} * coalesce(t.worth, 0)"
            f" AS score FROM v FULL JOIN t USING (id) ORDER BY score DESC, id LIMIT {self.near.k}"
        )

    def _words(self, place: str, rows: int) -> str:
        query = f"to_tsquery('simple', {place}::text)"
        return (
            f"SELECT id, ts_rank({self.column}, query)::float8 AS score"
            f" FROM {self.near.place.path}, {query} query WHERE {self.column} @@ query"
            f" ORDER BY score DESC, id LIMIT {rows}"
        )

    def _similarity(self) -> str:
        return "-score * score" if self.near.schema.metric is Metric.L2 else "-score"

    def _weighted_score(self, score: str) -> str:
        if self.blend.fusion is Fusion.RECIPROCAL_RANK:
            return (
                f"1.0::float8 / ({RANK_CONSTANT} + row_number() OVER (ORDER BY {score} DESC, id))"
            )
        least = f"min({score}) OVER ()"
        return f"coalesce(({score} - {least}) / nullif(max({score}) OVER () - {least}, 0), 1)"
