"""Indexes of Milvus: their parameters, and the server's progress with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from pydantic import Field as Bound

from vectrial.model.capabilities import IndexKind, Params, Spreading
from vectrial.model.errors import StoreError, UserError
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType
from vectrial.stores.common.server import wait_until
from vectrial.stores.milvus.collection import strong_count

#: Indexes of vectors, as the server names them.
KINDS = {"hnsw": "HNSW", "ivf_flat": "IVF_FLAT", "ivf_sq8": "IVF_SQ8", "flat": "FLAT"}
#: Indexes of fields. There is none for bool.
FIELD_INDEX = {FieldType.INT: "STL_SORT", FieldType.FLOAT: "STL_SORT", FieldType.STRING: "Trie"}
#: Segments of fewer rows get no index (`indexCoord.segment.minSegmentNumRowsToEnableIndex`).
INDEXED_FROM = 1_024
_POLL_S = 0.05
#: Half of the largest segment (`dataCoord.segment.maxSize` and `smallProportion`): larger ones are
#: left alone by compactions.
_SMALL_BYTES = 256 << 20
#: Seconds after which a single small segment is taken for left over: the server looks each minute.
_LEFT_OVER_S = 90.0
_INDEXING_S = 3600.0
_CHANNEL_NOT_AVAILABLE = 503  #: code of the server's error


class MilvusConsistency(StrEnum):
    """Writes that a search must have seen."""

    STRONG = "strong"  # every write acknowledged before it was sent
    BOUNDED = "bounded"  # every write acknowledged 5 s before, as servers are set
    EVENTUALLY = "eventually"  # no write in particular


class MilvusReads(Params):
    """consistency: consistency level of the search. Milvus' own default is bounded. A strong search
    waits until the clock of the query nodes has passed its own time, which ticks every 200 ms."""

    consistency: MilvusConsistency = MilvusConsistency.BOUNDED


_STRONG = {"consistency": MilvusConsistency.STRONG}


class MilvusSpreading(Spreading):
    """shards, replication_factor: see `Spreading`. A shard is a channel of writes here, of which
    the server allows 16; segments are spread over nodes whatever their shard."""

    shards: int | None = Bound(default=None, ge=1, le=16)


class MilvusHnswBuild(MilvusSpreading):
    """m, ef_construction: parameters of the graph of each segment (the lowest layer has up to 2m
    links). shards, replication_factor: see `MilvusSpreading`."""

    m: int = Bound(default=16, ge=2, le=2048)
    ef_construction: int = Bound(default=200, ge=1, le=100_000)


class MilvusHnswSearch(MilvusReads):
    """ef_search: candidates held in each graph, at least k."""

    ef_search: int = Bound(default=64, ge=1, le=1_000_000)


class MilvusIvfBuild(MilvusSpreading):
    """nlist: lists of each segment's index. shards, replication_factor: see `MilvusSpreading`."""

    nlist: int = Bound(default=128, ge=1, le=65_536)


class MilvusIvfSearch(MilvusReads):
    """nprobe: lists looked into."""

    nprobe: int = Bound(default=8, ge=1, le=65_536)


INDEXES: Mapping[str, IndexKind] = {
    # Under a filter a search of the graph may end early, and the same search asked twice
    # has two answers: of 20 under each of 33 filters that keep 10 to 40 % of 2,000 rows,
    # the mean recall was 0.85 to 1 at any m and ef_search (0.35 at worst under ip). Where
    # far rows replaced others under inner product, 0.81 was seen without a filter.
    "hnsw": IndexKind(
        MilvusHnswBuild,
        MilvusHnswSearch,
        high_recall_params={"ef_search": 2048},
        recall_floors={Metric.IP: 0.7},
        strong_consistency_params=_STRONG,
        filtered_floor=0.2,
    ),
    "ivf_flat": IndexKind(
        MilvusIvfBuild,
        MilvusIvfSearch,
        high_recall_params={"nprobe": 1024},
        strong_consistency_params=_STRONG,
    ),
    "ivf_sq8": IndexKind(
        MilvusIvfBuild,
        MilvusIvfSearch,
        high_recall_params={"nprobe": 1024},
        strong_consistency_params=_STRONG,
        exact_scores=False,
    ),
    "flat": IndexKind(
        MilvusSpreading, search=MilvusReads, exact=True, strong_consistency_params=_STRONG
    ),
}


def has_index(field: Field) -> bool:
    """True for a column that should be indexed and can be."""
    return field.indexed and field.type in FIELD_INDEX


def require_candidates(params: Params, k: int) -> None:
    """Raise `UserError` if ef_search is below k, which the server refuses."""
    if isinstance(params, MilvusHnswSearch) and params.ef_search < k:
        raise UserError(
            f"ef_search is {params.ef_search} and k is {k}, and Milvus wants ef_search to be at"
            " least k"
        )


@dataclass(frozen=True)
class IndexProgress:
    """Progress of the server with a collection.

    client: a `pymilvus.MilvusClient`. structure: whether the index of the vectors is something to
        load: FLAT searches the rows. row_bytes: bytes of a row's vector.
    """

    client: Any
    collection: str
    structure: bool
    row_bytes: int

    def wait_indexed(self) -> None:
        """Wait until every index holds every row.

        Raises:
            StoreError: an index failed, or is not done after an hour.
        """
        _wait_until("indexes", self._why_not_indexed)

    def wait_merged(self) -> None:
        """Have small segments merged if there are several, and wait until all rows are indexed
        again.

        A compaction on request skips segments that the server's own (each minute, and when segments
        are flushed) is working on. It reports Completed although the segments change under later
        searches, so it is repeated once these are gone. Segments of more than half the largest size
        are not merged, and a single small one may be left over.

        Raises:
            StoreError: it is not done after an hour.
        """
        while len(segments := self._segments()) > 1:
            self.wait_indexed()  # others are left out as well
            job = self.client.compact(self.collection)
            others = self._small_segments() & segments - self._compacted_segments(job)
            _wait_until("compaction", partial(self._why_not_compacted, job))
            if not others:
                break
            if len(others) > 1:
                _wait_until("compaction of its own", partial(self._why_not_gone, others))
            elif not _has_ended_within(_LEFT_OVER_S, partial(self._why_not_gone, others)):
                break
        self.wait_indexed()

    def wait_served(self) -> None:
        """Wait until the query nodes hold exactly what is stored, with its indexes, and answer a
        strong count: no later read sees less.

        Raises:
            StoreError: they do not after an hour.
        """
        if self._why_not_served():
            # Query nodes learn of new segments every 10 s, and by this call.
            self.client.refresh_load(self.collection)
        _wait_until("query nodes", self._why_not_served)
        _wait_until("shards", self._why_not_answering)

    def indexed_rows(self) -> int:
        """Number of rows in the segments that the query nodes hold with an index. This server does
        not list growing segments."""
        loaded = self.client.list_loaded_segments(self.collection)
        return sum(one.num_rows for one in loaded if one.index_id and _state(one) != "Growing")

    def _why_not_indexed(self) -> str:
        for name in self.client.list_indexes(self.collection):
            index = self.client.describe_index(self.collection, name)
            if index["state"] == "Failed":
                raise StoreError(f"index {name} failed: {index.get('index_state_fail_reason')}")
            if index["state"] != "Finished" or index["indexed_rows"] != index["total_rows"]:
                return f"{index['indexed_rows']} of {index['total_rows']} rows in index {name}"
        return ""

    def _segments(self) -> set[int]:
        """Ids of the stored segments."""
        return {one.segment_id for one in self.client.list_persistent_segments(self.collection)}

    def _small_segments(self) -> set[int]:
        """Ids of the stored segments that the server would merge with others."""
        stored = self.client.list_persistent_segments(self.collection)
        most = _SMALL_BYTES / max(1, self.row_bytes)
        return {one.segment_id for one in stored if one.num_rows < most}

    def _compacted_segments(self, job: int) -> set[int]:
        """Ids of the segments that a compaction takes."""
        plans = self.client.get_compaction_plans(job).plans
        return {segment for plan in plans for segment in plan.sources}

    def _why_not_gone(self, segments: set[int]) -> str:
        left = segments & self._segments()
        return f"{len(left)} segments are being compacted" if left else ""

    def _why_not_compacted(self, job: int) -> str:
        state = self.client.get_compaction_state(job)
        return "" if state == "Completed" else str(state)

    def _why_not_served(self) -> str:
        stored = self.client.list_persistent_segments(self.collection)
        loaded = self.client.list_loaded_segments(self.collection)
        missing = {one.segment_id for one in stored} ^ {one.segment_id for one in loaded}
        growing = [one for one in (*stored, *loaded) if _state(one) not in ("Flushed", "Sealed")]
        bare = [
            one
            for one in loaded
            if self.structure and one.num_rows >= INDEXED_FROM and not one.index_id
        ]
        if missing or growing or bare:
            return (
                f"{len(missing)} segments not up to date, {len(growing)} growing,"
                f" {len(bare)} without an index"
            )
        return ""

    def _why_not_answering(self) -> str:
        """The reason why a shard does not answer. For a moment after its segments change, the
        coordinator believes that its query node lacks a segment that the node lists as loaded."""
        from pymilvus import MilvusException

        try:
            strong_count(self.client, self.collection)
        except MilvusException as error:
            if error.code != _CHANNEL_NOT_AVAILABLE:
                raise
            return str(error.message)
        return ""


def _state(segment: Any) -> str:
    return str(getattr(segment.state, "name", segment.state))


def _has_ended_within(seconds: float, lack: Callable[[], str]) -> bool:
    """Wait until `lack` reports nothing missing; False if that takes longer than `seconds`."""
    ends = time.monotonic() + seconds
    while lack():
        if time.monotonic() > ends:
            return False
        time.sleep(_POLL_S)
    return True


def _wait_until(what: str, lack: Callable[[], str]) -> None:
    """Wait until nothing is missing, for an hour at most."""

    def state() -> tuple[bool, str]:
        found = lack()
        return not found, f"{what} not done: {found}"

    wait_until(state, _INDEXING_S, _POLL_S)
