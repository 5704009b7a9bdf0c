"""Longbow through its Flight protocol, with the behaviour of version 987003c (January 2026).

Observed with a build of that version, which uses portable code instead of its assembly, which does
not assemble on x86-64:

- a put is acknowledged when its rows are in a queue; the graph is built afterwards, with m and
  ef_construction of the whole server, and searched with 50 candidates or k whatever is asked for;
- every metric is L2; ids come back with 32 bits; a row that is put twice is there twice;
- a deleted row is left out of scans, and still found by searches;
- a search by ticket is answered from a cache for a minute, whatever was put meanwhile; one by the
  action `VectorSearch` is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.filters import Eq, Filter
from vectrial.stores import common as vt
from vectrial_reproduce.stores.flight.filters import to_members
from vectrial_reproduce.stores.flight.longbow_server import TEXT_COLUMN, revision
from vectrial_reproduce.stores.flight.store import FlightStore, hits

#: Ids are cut to so many bits in the answer to a search.
_ID_BITS = 32
#: Message of its client for a stream without a schema.
_NO_ROWS = "Server never sent a data message"
_OPERATORS = frozenset({"and", "eq", "range"})


class LongbowSearch(vt.Params):
    """cached: search by a ticket, whose answer the server remembers for a minute, as its own
    clients do; otherwise by the action `VectorSearch`, whose answer is computed each time."""

    cached: bool = False


class LongbowStore(FlightStore):
    """One dataset of a Longbow server."""

    name = "longbow"
    title = "Longbow"
    server = "vectrial_reproduce.stores.flight.longbow_server:LONGBOW"
    capabilities = vt.Capabilities(
        scores={vt.Metric.L2: vt.ScoreKind.INVERSE_L2},
        indexes={
            # It searches with 50 candidates, and no request can ask for more.
            "hnsw": vt.IndexKind(search=LongbowSearch, recall_floor=0.85, filtered_floor=0.7)
        },
        filters=_OPERATORS,
        find=_OPERATORS,
        field_types=frozenset({vt.FieldType.INT, vt.FieldType.FLOAT, vt.FieldType.STRING}),
        nulls=True,
        upsert=False,
        delete=False,
        persistent=True,
        concurrent_search=True,
        durability={
            vt.Durability.BUFFERED: "a put is acknowledged when its rows are in a queue; its log is"
            " synced by another thread"
        },
        hybrid=vt.Hybrid(
            fusions={
                vt.Fusion.RECIPROCAL_RANK: "both alike at any α between 0 and 1, 2 k rows of each"
            },
            rows_per_k=2,
            equal_weights=True,
            text="its own inverted index of the column 'text'; BM25",
        ),
        caveats=(
            "m and ef_construction are the server's (32 and 400); a search has 50 candidates,"
            " or k where that is more",
            "every metric is L2",
            "ids come back with 32 bits: others are refused before they are put",
            "no deletes and no updates: a deleted row is still found by searches, and a row that"
            " is put again is there twice",
            "search parameter cached = true: answers are remembered for a minute, also when rows"
            " were put meanwhile; those of hybrid searches always are",
            "a get is one filtered scan for each id; a find reads every row that the filter keeps,"
            " whatever the limit",
            "booleans cannot be filtered by, nor can alternatives, negations and missing values",
            "vectors and filters of a search travel as JSON",
        ),
    )

    #: Rows that are known to be there.
    _there = 0

    def version(self) -> str:
        return f"Longbow {revision() or 'of an unknown version: it does not tell'}"

    def _column_names(self, schema: vt.Schema) -> Mapping[str, str]:
        texts = [field.name for field in schema.fields if field.text]
        return {**schema.columns, **dict.fromkeys(texts[:1], TEXT_COLUMN)}

    def drop(self) -> None:
        with suppress(pa.ArrowKeyError):  # there is none
            super().drop()

    def _exists(self) -> bool:
        # Readiness is that of all datasets while any is in the queue.
        from pyarrow import flight

        try:
            self._client.get_schema(flight.FlightDescriptor.for_path(self._name), self._options)
        except pa.ArrowKeyError:
            return False
        return True

    def refresh(self) -> None:
        """Wait until searches find every row: a row is found once it is in the graph."""
        vt.wait_until(lambda: self._index_state(self._there))

    def _indexable_rows(self) -> int:
        # A scan may come before rows that were acknowledged.
        self._there = max(self._there, self.count())
        return self._there

    def flush(self) -> None:
        """Do nothing: the server writes its log by itself."""

    def insert(self, batch: pa.RecordBatch) -> None:
        ids = batch.column("id").to_numpy()
        if len(ids) and (ids.min() < 0 or ids.max() >= 1 << _ID_BITS):
            raise vt.StoreError(f"Longbow returns {_ID_BITS} bits of an id: these ids need more")
        super().upsert(batch)
        self._there += len(ids)

    def upsert(self, batch: pa.RecordBatch) -> None:
        raise vt.Unsupported(f"{self.name} has no upsert")

    def delete(self, ids: NDArray[np.int64]) -> None:
        raise vt.Unsupported(f"{self.name} has no delete that searches heed")

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        batches = [
            batch
            for one in np.unique(ids).tolist()
            for batch in self._scan_batches({"filters": to_members(Eq("id", one))})
        ]
        return vt.table_of(self._schema, batches)

    def count(self) -> int:
        return sum(batch.num_rows for batch in self._scan_batches({}))

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        rows = self._scan_batches({"filters": self._translate(where)})
        ids = [batch.column("id").to_numpy() for batch in rows]
        return np.concatenate([np.empty(0, np.int64), *ids])[:limit]

    def _scan_batches(self, members: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        try:
            yield from super()._scan_batches(members)
        except pa.ArrowException as error:
            if _NO_ROWS not in str(error):  # it sends no schema where there are none
                raise

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        if _params(request).cached:
            return super()._searcher(request)
        from pyarrow import flight

        search = self._search_json(request)
        act, options, action = self._client.do_action, self._options, flight.Action

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            (answer,) = act(action("VectorSearch", search(vector)), options)
            return hits(pa.ipc.open_stream(answer.body).read_all())

        return run

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        native = super()._native_search(request)
        search = "ticket" if _params(request).cached else "action"
        return replace(native, options={**native.options, "search": search})


def _params(request: vt.SearchRequest) -> LongbowSearch:
    assert isinstance(request.params, LongbowSearch)
    return request.params
