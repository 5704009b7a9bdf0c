"""DocArray on Redis' query engine, by the server of the store `redis-search`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, Value
from vectrial.stores import common as vt
from vectrial.stores.redis import search as engine
from vectrial.stores.redis.existing import index_info
from vectrial.stores.redis.query import METRICS, equal_number, range_query
from vectrial.stores.redis.server import connect
from vectrial_reproduce.stores.docarray.indexed import (
    CAVEATS,
    NUMBERS,
    OPERATORS,
    SERVED_CAVEATS,
    ServedDocumentArray,
)

_ANSWER_S = 300.0


class DocArrayRedis(ServedDocumentArray):
    """Hashes under one prefix, and one index over them, as DocArray lays them out."""

    name = "docarray-redis"
    title = "DocArray on Redis"
    server = "vectrial.stores.redis.server:REDIS_SEARCH"
    storage = "redis"
    score = "score"
    collection_pattern = "vectrial-docarray-{}"
    files = engine.RedisSearch.files
    capabilities = vt.Capabilities(
        scores=engine.RedisSearch.capabilities.scores,
        indexes={
            "hnsw": vt.IndexKind(
                engine.QueryEngineBuild,
                engine.QueryEngineSearch,
                recall_floors={vt.Metric.IP: 0.7},
                high_recall_params={"ef_search": 1000},
            )
        },
        filters=OPERATORS,
        find=OPERATORS,
        find_brings_rows=True,
        field_types=frozenset(NUMBERS),
        nulls=True,
        most_int=2**53,  # they are float64 there
        persistent=True,
        concurrent_search=True,
        scan=False,
        caveats=(
            *CAVEATS,
            *SERVED_CAVEATS,
            "DocArray can set EF_RUNTIME for a whole index only: here it is added to the query"
            " that DocArray sends",
            "no columns of text: DocArray has it taken apart into words",
            "searches have no time limit (TIMEOUT 0), which DocArray leaves at 500 ms",
            "DocArray 0.21 is of 2023, server and query engine are newer",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        return connect(address, _ANSWER_S)

    def version(self) -> str:
        return f"{super().version()} on Redis {engine.version(self._client)}"

    def _config(self) -> dict[str, Any]:
        params = self._index.params
        assert isinstance(params, engine.QueryEngineBuild)
        secrets = self._address.secrets
        return {
            "n_dim": self._schema.dim,
            "host": self._address.host,
            "port": self._address.ports["redis"],
            "index_name": self._name,
            # Else it would make the index anew, which is there when a collection is opened.
            "update_schema": not self._exists(),
            "distance": METRICS[self._schema.metric],
            "m": params.m,
            "ef_construction": params.ef_construction,
            "columns": self._columns(NUMBERS),
            "redis_config": {
                "username": secrets.get("user"),
                "password": secrets.get("password"),
                "socket_timeout": _ANSWER_S,
            },
        }

    def _new(self) -> Any:
        engine.remove_time_limit(self._client)
        self._ef = engine.QueryEngineSearch().ef_search
        rows = super()._new()
        send = rows._client.execute_command

        def execute(*words: Any, **options: Any) -> Any:
            """The command as DocArray sends it, with the candidates of a search."""
            if words[0] == "FT.SEARCH":
                name, index, text, *rest = words
                text = text.replace("$vec AS", f"$vec EF_RUNTIME {self._ef} AS")
                words = (name, index, text, *rest)
            return send(*words, **options)

        rows._client.execute_command = execute
        return rows

    def _exists(self) -> bool:
        names = self._client.execute_command("FT._LIST")
        return self._name in {one.decode() if isinstance(one, bytes) else one for one in names}

    def close(self) -> None:
        super().close()
        self._client.close()

    def drop(self) -> None:
        engine.drop_index(self._client, self._name)
        self._client.delete(f"{self._name}__offset2id")

    def count(self) -> int:
        # DocArray's own is the length of its list.
        return int(index_info(self._client, self._name)["num_docs"])

    def wait_indexed(self) -> str:
        return engine.wait_indexed(self._client, self._name)

    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        assert isinstance(params, engine.QueryEngineSearch)
        find, ef = self._rows.find, params.ef_search

        def run(vector: Any, **arguments: Any) -> Any:
            self._ef = ef  # another searcher may differ
            return find(vector, **arguments)

        return run

    def _condition(self, where: vt.Filter) -> str:
        return _query(vt.on_columns(where, self._schema), holds=True)


def _query(where: Filter, *, holds: bool) -> str:
    """The query under which `where` is true (`holds`), or false and not unknown: a row that lacks a
    value matches no range."""
    match where:
        case Not(part):
            return _query(part, holds=not holds)
        case And(parts) | Or(parts):
            word = " " if isinstance(where, And) is holds else " | "
            return f"({word.join(_query(part, holds=holds) for part in parts)})"
        case IsNull(name):
            return f"({'-' if holds else ''}@{name}:[-inf +inf])"
        case Eq(name, value):
            return _clause(name, _equal(name, value), holds)
        case In(name, values):
            return _clause(name, " | ".join(_equal(name, value) for value in values), holds)
        case Range(name):
            return _clause(name, range_query(name, where), holds)


def _clause(name: str, inside: str, holds: bool) -> str:
    return f"({inside})" if holds else f"(@{name}:[-inf +inf] -({inside}))"


def _equal(name: str, value: Value) -> str:
    """The query for a value. Booleans are stored as 0 and 1, and there are no text columns."""
    assert not isinstance(value, str)
    return equal_number(name, int(value) if isinstance(value, bool) else value)
