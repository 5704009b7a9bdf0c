"""Segments on their way through an object store: what is told of them, and what happens when an
object is missing, cut, or not what was put."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_worlds import dataset, index_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.model.objects import ObjectsAccess
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.hnswlib import HnswlibStore
from vectrial.stores.sqlite.store import SqliteStore
from vectrial_reproduce.segments import spans as of_spans
from vectrial_reproduce.segments.index_files import SegmentBuilder, decode, encode
from vectrial_reproduce.segments.objects import ObjectError, Objects, check, receipt_of
from vectrial_reproduce.segments.pipeline import Pipeline, PipelineSettings
from vectrial_reproduce.segments.spans import Span, Spans, Stage

ROWS, SEGMENT = 600, 100

# -- spans ---------------------------------------------------------------------------------------

SPANS = st.lists(
    st.builds(
        lambda stage, segment, worker, start, length: Span(
            stage, segment, worker, start, start + length, length
        ),
        st.sampled_from(list(Stage)),
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(0, 10**9),
        st.integers(0, 10**9),
    ),
    max_size=30,
)


@given(SPANS)
def test_the_clock_shows_no_more_than_the_sum_and_the_length(spans: list[Span]) -> None:
    wall = of_spans.wall_s(spans)
    assert wall <= of_spans.sum_s(spans) + 1e-9
    assert wall <= of_spans.length_s(spans) + 1e-9
    for stage in Stage:
        share = of_spans.overlapped_share(spans, stage)
        assert share is None or -1e-9 <= share <= 1 + 1e-9


@given(SPANS)
def test_the_critical_path_is_no_longer_than_the_pipeline(spans: list[Span]) -> None:
    path = of_spans.critical_path(spans)
    assert sum(path.values()) <= of_spans.length_s(spans) + 1e-9
    assert all(seconds >= 0 for seconds in path.values())


def test_figures_of_spans_are_what_one_computes_by_hand() -> None:
    second = 10**9
    spans = [
        Span(Stage.GET, 0, 0, 0, 1 * second),
        Span(Stage.BUILD, 0, 1, 1 * second, 4 * second),
        Span(Stage.GET, 1, 0, 1 * second, 2 * second),
        Span(Stage.BUILD, 1, 1, 4 * second, 7 * second),
        Span(Stage.WRITE_BACK, 1, 2, 7 * second, 8 * second),
    ]
    assert of_spans.sum_s(spans) == 9
    assert of_spans.wall_s(spans) == of_spans.length_s(spans) == 8
    assert of_spans.overlapped_share(spans, Stage.GET) == 0.5
    expected = {Stage.WRITE_BACK: 1.0, Stage.BUILD: 6.0, Stage.GET: 1.0}
    assert of_spans.critical_path(spans) == expected
    assert of_spans.critical_path([]) == {}
    assert of_spans.overlapped_share(spans, Stage.PUT) is None


def test_a_step_that_fails_is_no_span() -> None:
    spans = Spans()
    with pytest.raises(ValueError, match="x"), spans.timed(Stage.PUT, 0, 0):
        raise ValueError("x")
    assert spans.all == ()


# -- objects -------------------------------------------------------------------------------------


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(ObjectsAccess(folder=tmp_path / "objects", prefix="a/b"))


def test_objects_come_out_as_they_went_in(objects: Objects, tmp_path: Path) -> None:
    data = bytes(range(256)) * 100
    objects.put("one", data)
    assert bytes(objects.get("one")) == data
    file = tmp_path / "file"
    file.write_bytes(data)
    in_parts = Objects(ObjectsAccess(folder=tmp_path / "objects", prefix="a/b"), part_bytes=1000)
    assert bytes(in_parts.get("one")) == data
    objects.put_file("folder/two", file)
    objects.get_file("folder/two", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == data
    assert objects.keys() == ["folder/two", "one"]
    assert objects.keys("folder") == ["folder/two"]
    objects.put_json("three", {"a": 1})
    assert objects.get_json("three") == {"a": 1}
    objects.delete("one")
    assert objects.keys() == ["folder/two", "three"]
    assert (tmp_path / "objects" / "a" / "b" / "three").exists()


def test_a_missing_object_is_named(objects: Objects, tmp_path: Path) -> None:
    for ask in (
        lambda: objects.get("gone"),
        lambda: objects.get_file("gone", tmp_path / "x"),
        lambda: objects.get_json("gone"),
    ):
        with pytest.raises(ObjectError, match=r"^gone: missing$"):
            ask()


def test_what_was_not_put_is_told_from_what_was(objects: Objects) -> None:
    receipt = receipt_of("key", b"abcd")
    check(receipt_of("key", b"abcd"), receipt)
    for data, said in ((b"abc", "truncated"), (b"abcde", "corrupt"), (b"abce", "SHA-256")):
        with pytest.raises(ObjectError, match=f"^key: .*{said}"):
            check(receipt_of("key", data), receipt)
    for text in (b"{", b"[1]", b"\xff"):
        objects.put("json", text)
        with pytest.raises(ObjectError, match=r"^json: corrupt"):
            objects.get_json("json")


# -- the pipeline --------------------------------------------------------------------------------


class World:
    """A pipeline over a folder of objects, which can be made again over the same."""

    def __init__(self, folder: Path, kind: type[Store] = HnswlibStore, index: str = "hnsw") -> None:
        self.rows: Dataset = dataset(ROWS)
        self.folder, self.objects_folder = folder, folder / "objects"
        schema = Schema(self.rows.dim, self.rows.metric)
        self.builder = SegmentBuilder(kind, schema, index_of(kind, index), 50)

    def pipeline(
        self,
        workers: int = 1,
        prefetch: int = 1,
        embed: Callable[[int, int], int] | None = None,
    ) -> Pipeline:
        return Pipeline(
            self.rows,
            Objects(ObjectsAccess(folder=self.objects_folder)),
            self.builder,
            PipelineSettings(workers, prefetch, SEGMENT),
            self.folder / "scratch",
            lambda *_: None,
            embed,
        )

    def found(self, pipeline: Pipeline) -> list[list[int]]:
        """Ids of the nearest rows of a few queries in each segment, searched nearly exactly: two
        graphs of the same rows that several threads built differ."""
        stores, outcome = pipeline.load(self.folder / "loaded")
        assert not outcome.failed
        kind = self.builder.make.capabilities.indexes[self.builder.index.kind]  # type: ignore[attr-defined]
        try:
            params = kind.search(**kind.high_recall_params)
            searchers = [store.searcher(5, params) for store in stores]
            return [
                sorted(int(i) for search in searchers for i in search(query)[0])
                for query in self.rows.queries[:3]
            ]
        finally:
            for store in stores:
                store.close()


@pytest.mark.parametrize(("kind", "index"), [(HnswlibStore, "hnsw"), (SqliteStore, "flat")])
@pytest.mark.parametrize(("workers", "prefetch"), [(1, 0), (1, 2), (3, 1)])
def test_every_row_is_in_the_index_of_its_segment(
    kind: type[Store], index: str, workers: int, prefetch: int, tmp_path: Path
) -> None:
    world = World(tmp_path, kind, index)
    pipeline = world.pipeline(workers, prefetch)
    for outcome in (pipeline.put(), pipeline.index()):
        assert not outcome.failed
        assert not outcome.resumed
    assert outcome.most_bytes <= pipeline.settings.most_in_memory * pipeline.segment_bytes
    stores, _ = pipeline.load(tmp_path / "loaded")
    ids = [np.sort(np.concatenate([b["id"].to_numpy() for b in s.scan()])) for s in stores]
    for own, (start, stop) in zip(ids, pipeline.bounds, strict=True):
        assert own.tolist() == sorted(world.rows.ids[start:stop].tolist())
    for store in stores:
        store.close()
    counts = {stage: len(pipeline.spans.select(stage)) for stage in Stage}
    assert counts == {**dict.fromkeys(Stage, ROWS // SEGMENT), Stage.IMPORT: 0, Stage.EMBED: 0}
    assert not list((tmp_path / "scratch").glob("*")), "nothing temporary is left"
    pipeline.remove()
    assert not [path for path in world.objects_folder.rglob("*") if path.is_file()]


def test_a_segment_is_an_arrow_file_of_its_rows() -> None:
    rows = dataset(ROWS)
    data = encode(rows, Schema(rows.dim, rows.metric), 100, 200)
    batch = decode(memoryview(data))
    assert batch["id"].to_pylist() == rows.ids[100:200].tolist()
    vectors: NDArray[np.float32] = batch["vector"].flatten().to_numpy().reshape(-1, rows.dim)
    assert np.array_equal(vectors, rows.vectors[100:200])
    with pytest.raises(StoreError, match="corrupt: no Arrow file"):
        decode(memoryview(b"nothing of the kind"))


def spoil(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    match how:
        case "missing":
            path.unlink()
            return
        case "truncated":
            del data[-10:]
        case "corrupt":
            data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["missing", "truncated", "corrupt"])
@pytest.mark.parametrize("what", ["segments/00002.arrow", "segments/00002.arrow.receipt.json"])
def test_a_spoiled_segment_fails_with_its_name_and_the_rest_goes_on(
    how: str, what: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.pipeline().put()
    whole = (world.objects_folder / what).read_bytes()
    spoil(world.objects_folder / what, how)
    pipeline = world.pipeline(workers=2)
    outcome = pipeline.index()
    assert set(outcome.failed) == {2}
    assert outcome.failed[2].startswith("segments/00002.arrow")
    with pytest.raises(StoreError, match="index: 1 of 6 segments failed: segment 2: segments/"):
        outcome.raise_failed("index", 6)
    assert len(pipeline.spans.select(Stage.WRITE_BACK)) == 5
    # Mended, the one that lacks an index is done, and no other; the result is the same.
    (world.objects_folder / what).write_bytes(whole)
    again = world.pipeline()
    resumed = again.index()
    assert resumed.resumed == [0, 1, 3, 4, 5]
    assert [span.segment for span in again.spans.select(Stage.BUILD)] == [2]
    untouched = World(tmp_path / "untouched")
    fresh = untouched.pipeline()
    fresh.put()
    fresh.index()
    assert world.found(again) == untouched.found(fresh)


@pytest.mark.parametrize("how", ["missing", "truncated", "corrupt"])
def test_a_spoiled_index_is_not_opened(how: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    pipeline = world.pipeline()
    pipeline.put()
    pipeline.index()
    (file,) = (world.objects_folder / "indexes" / "00004").glob("index.*")
    spoil(file, how)
    stores, outcome = pipeline.load(tmp_path / "loaded")
    assert len(stores) == 5
    assert set(outcome.failed) == {4}
    assert outcome.failed[4].startswith(f"indexes/00004/{file.name}: {how}")
    for store in stores:
        store.close()
    (world.objects_folder / "indexes" / "00004.receipt.json").unlink()
    stores, outcome = pipeline.load(tmp_path / "loaded")
    assert outcome.failed == {4: "indexes/00004: missing"}
    for store in stores:
        store.close()


def test_texts_are_embedded_before_their_segment_is_cut(tmp_path: Path) -> None:
    world, asked = World(tmp_path), list[tuple[int, int]]()

    def embed(start: int, stop: int) -> int:
        asked.append((start, stop))
        return 7

    pipeline = world.pipeline(embed=embed)
    assert not pipeline.put().failed
    assert asked == pipeline.bounds
    spans = pipeline.spans.select(Stage.EMBED)
    assert [(span.segment, span.size_bytes) for span in spans] == [(n, 7) for n in range(6)]
    for embedded, cut in zip(spans, pipeline.spans.select(Stage.SEGMENT), strict=True):
        assert embedded.ended_ns <= cut.started_ns


def test_segments_that_were_put_before_are_not_put_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.pipeline().put()
    receipt = world.objects_folder / "segments" / "00003.arrow.receipt.json"
    told = json.loads(receipt.read_text())
    receipt.unlink()
    again = world.pipeline()
    outcome = again.put()
    assert outcome.resumed == [0, 1, 2, 4, 5]
    assert [span.segment for span in again.spans.select(Stage.PUT)] == [3]
    assert json.loads(receipt.read_text()) == told
    assert again.put().most_bytes == 0, "none was in memory"


def failing(when: Callable[[int], bool], error: Exception, step: str = "build") -> type[Store]:
    """hnswlib, whose n-th store fails when it builds, or in another step."""
    made = iter(range(100))
    lock = threading.Lock()

    class Failing(HnswlibStore):
        def __init__(self, location: Path) -> None:
            super().__init__(location)
            with lock:
                self._number = next(made)

    def fail(self: Failing, *_: object) -> None:
        if when(self._number):
            raise error
        getattr(HnswlibStore, step)(self, *_)

    setattr(Failing, step, fail)
    return Failing


@pytest.mark.parametrize("error", [StoreError("no more"), MemoryError("none left")])
def test_a_build_that_fails_fails_its_segment_alone(error: Exception, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.builder = replace(world.builder, make=failing(lambda n: n == 1, error))
    pipeline = world.pipeline(workers=1)
    pipeline.put()
    outcome = pipeline.index()
    assert list(outcome.failed) == [1]
    assert str(error) in outcome.failed[1]
    assert len(pipeline.spans.select(Stage.WRITE_BACK)) == 5


def test_an_index_that_its_library_cannot_read_fails_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    pipeline = world.pipeline()
    pipeline.put()
    pipeline.index()
    error = RuntimeError("another version's file")
    world.builder = replace(world.builder, make=failing(lambda n: n == 1, error, "open"))
    stores, outcome = world.pipeline().load(tmp_path / "loaded")
    assert outcome.failed == {1: "RuntimeError: another version's file"}
    assert len(stores) == 5
    for store in stores:
        store.close()


def test_a_slow_stage_holds_up_those_before_it(tmp_path: Path) -> None:
    """However slow builds are, no more segments are got than the settings allow."""
    gate, got = threading.Semaphore(0), list[int]()

    class Slow(HnswlibStore):
        def build(self) -> None:
            assert gate.acquire(timeout=30)

    class Counting(Objects):
        def get(self, key: str) -> memoryview:
            if key.endswith(".arrow"):
                got.append(1)
            return super().get(key)

    world = World(tmp_path)
    world.builder = replace(world.builder, make=Slow)
    world.pipeline().put()
    pipeline = Pipeline(
        world.rows, Counting(ObjectsAccess(folder=world.objects_folder)), world.builder,
        PipelineSettings(2, 1, SEGMENT), tmp_path / "scratch", lambda *_: None,
    )  # fmt: skip
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(pipeline.index()))
    thread.start()
    for done in range(6):
        assert len(got) <= done + pipeline.settings.most_in_memory
        gate.release()
    thread.join(30)
    assert outcomes
    assert not outcomes[0].failed
    assert outcomes[0].most_bytes <= 3 * pipeline.segment_bytes
