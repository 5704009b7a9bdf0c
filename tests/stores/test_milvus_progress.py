"""How far a Milvus is with its segments, while it compacts on its own: against a model of what its
coordinator does (2.3.5), since its own compactions begin when its minute strikes. That real
servers end with one index is in tests/servers/test_kinds_of_files.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from later import Later

from vectrial.stores.milvus import indexes
from vectrial.stores.milvus.indexes import IndexProgress

pymilvus = Later("pymilvus")


@dataclass
class Coordinator:
    """A client of a server whose own compactions end once somebody has looked at the segments
    `after` times; a compaction asked for takes what is not taken, and is Completed at once. full:
    segments that are too large to be merged."""

    segments: set[int]
    own: set[int]
    after: int = 3
    asked: list[set[int]] = field(default_factory=list[set[int]])
    full: set[int] = field(default_factory=set[int])

    def list_indexes(self, _name: str) -> list[str]:
        return []

    def list_persistent_segments(self, _name: str) -> list[SimpleNamespace]:
        self.after -= 1
        if not self.after:
            self.segments = self.segments - self.own | {100}
            self.own = set()
        return [
            SimpleNamespace(segment_id=one, num_rows=1_000_000 if one in self.full else 100)
            for one in sorted(self.segments)
        ]

    def compact(self, _name: str) -> int:
        taken = self.segments - self.own - self.full
        if taken:
            self.segments = self.own | self.full | {200 + len(self.asked)}
        self.asked.append(taken)
        return len(self.asked) - 1

    def get_compaction_plans(self, job: int) -> SimpleNamespace:
        taken = sorted(self.asked[job])
        return SimpleNamespace(plans=[SimpleNamespace(sources=taken)] if taken else [])

    def get_compaction_state(self, _job: int) -> str:
        return "Completed"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_POLL_S", 0.0)


@pytest.mark.parametrize(
    ("own", "asked", "left"),
    [
        (set[int](), [{1, 2, 3}], {200}),  # none of its own: once is enough
        ({1, 2, 3}, [set[int]()], {100}),  # all of them: what it leaves is one segment
        ({1, 2}, [{3}, {100, 200}], {201}),  # some of them: both halves are merged afterwards
    ],
)
def test_nothing_is_merged_behind_the_searches(
    own: set[int], asked: list[set[int]], left: set[int]
) -> None:
    server = Coordinator({1, 2, 3}, own)
    IndexProgress(server, "c", structure=True, row_bytes=400).wait_merged()
    assert server.asked == asked
    assert server.segments == left
    assert not server.own, "none is under way"


def test_one_segment_is_left_alone() -> None:
    server = Coordinator({1}, set())
    IndexProgress(server, "c", structure=True, row_bytes=400).wait_merged()
    assert not server.asked


def test_segments_that_are_full_are_waited_for_by_nobody() -> None:
    """Nine of ten million rows stay nine: without this the wait ended after an hour."""
    server = Coordinator({1, 2, 3}, set(), full={1, 2, 3}, after=-1)
    IndexProgress(server, "c", structure=True, row_bytes=400).wait_merged()
    assert server.asked == [set()]
    assert server.segments == {1, 2, 3}


def test_a_small_one_beside_full_ones_may_be_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_LEFT_OVER_S", 0.05)
    server = Coordinator({1, 2, 3}, own={3}, full={1, 2}, after=-1)
    IndexProgress(server, "c", structure=True, row_bytes=400).wait_merged()
    assert server.segments == {1, 2, 3}


@dataclass
class Shard:
    """A client of a server whose query nodes have all that is stored, while its coordinator learns
    of it only once it has been asked `late` times."""

    late: int
    code: int = 503
    questions: int = 0

    def list_persistent_segments(self, _name: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(segment_id=1, num_rows=10, state="Flushed", index_id=0)]

    list_loaded_segments = list_persistent_segments

    def refresh_load(self, _name: str) -> None:
        pass

    def query(self, _name: str, **_asked: object) -> list[dict[str, int]]:
        self.questions += 1
        if self.questions <= self.late:
            raise pymilvus.MilvusException(
                self.code, "segment lacks[segment=1]: channel not available"
            )
        return [{"count(*)": 10}]


@pytest.mark.parametrize("late", [0, 1, 3])
def test_rows_are_served_once_the_coordinator_knows_of_it(late: int) -> None:
    server = Shard(late)
    IndexProgress(server, "c", structure=True, row_bytes=400).wait_served()
    assert server.questions > late


def test_another_error_of_a_count_is_not_waited_out() -> None:
    server = Shard(1, code=65535)
    with pytest.raises(pymilvus.MilvusException):
        IndexProgress(server, "c", structure=True, row_bytes=400).wait_served()
