"""The pipeline of segments: put as objects; fetched, indexed and written back; fetched and
searched.

Every object has a receipt beside it, which is written last. An object without a receipt was not
finished: a pipeline over the same objects repeats it.
"""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.model.progress import Progress
from vectrial.model.store import Store
from vectrial_reproduce.segments import index_files
from vectrial_reproduce.segments.index_files import SegmentBuilder
from vectrial_reproduce.segments.objects import (
    Objects,
    Receipt,
    check,
    receipt_of,
    receipt_of_file,
)
from vectrial_reproduce.segments.spans import Spans, Stage

_SEGMENTS, _INDEXES, _RECEIPT = "segments", "indexes", ".receipt.json"
_MOST_SAID = 5


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of a pipeline. workers: threads that build, each one segment at a time. prefetch:
    segments fetched ahead, including one in flight. segment_rows: rows of each segment but the
    last."""

    workers: int
    prefetch: int
    segment_rows: int

    @property
    def most_in_memory(self) -> int:
        """Maximum number of segments in memory at once."""
        return self.prefetch + self.workers


@dataclass
class StepOutcome:
    """Outcome of a step for all segments.

    failed: the reason by segment. resumed: segments that were done before.
    most_bytes: the most memory that segments took at once.
    """

    failed: dict[int, str] = field(default_factory=dict)
    resumed: list[int] = field(default_factory=list)
    most_bytes: int = 0

    def raise_failed(self, step: str, total: int) -> None:
        """Raise `StoreError` if any segment failed; the message names each."""
        if not self.failed:
            return
        said = [f"segment {number}: {why}" for number, why in sorted(self.failed.items())]
        more = f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
        raise StoreError(
            f"{step}: {len(said)} of {total} segments failed: {'; '.join(said[:_MOST_SAID])}{more}"
        )


class Pipeline:
    """The segments of one dataset on their way to indexes.

    Args:
        objects: the store for segments and indexes. builder: builds the indexes. folder: for
            temporary files, if there is no room in memory. embed: makes the vectors of rows from a
            first one to the one after the last, and returns the bytes of their texts; None: none
            are made.

    spans: every step of every segment. bounds: the first row of each segment, and the one after its
        last.
    """

    def __init__(
        self,
        dataset: Dataset,
        objects: Objects,
        builder: SegmentBuilder,
        settings: PipelineSettings,
        folder: Path,
        progress: Progress,
        embed: Callable[[int, int], int] | None = None,
    ) -> None:
        self._embed = embed
        self._dataset, self._objects, self._builder = dataset, objects, builder
        self._settings, self._folder, self._progress = settings, folder, progress
        self.spans = Spans()
        rows = settings.segment_rows
        self.bounds = [
            (start, min(start + rows, dataset.rows)) for start in range(0, dataset.rows, rows)
        ]

    @property
    def segment_bytes(self) -> int:
        """Size in bytes of a whole segment, without its metadata."""
        return min(self._settings.segment_rows, self._dataset.rows) * (self._dataset.dim * 4 + 8)

    def put(self) -> StepOutcome:
        """Embed the texts of each segment, if any; cut the segment and put it as an object."""
        outcome, there = StepOutcome(), self._receipts(_SEGMENTS)
        for number, (start, stop) in enumerate(self.bounds):
            self._progress(number, len(self.bounds), "putting segments")
            if number in there:
                outcome.resumed.append(number)
                continue
            try:
                if self._embed is not None:
                    with self.spans.timed(Stage.EMBED, number, 0) as sized:
                        sized.size_bytes = self._embed(start, stop)
                with self.spans.timed(Stage.SEGMENT, number, 0) as sized:
                    data = index_files.encode(self._dataset, self._builder.schema, start, stop)
                    sized.size_bytes = data.size
                    receipt = receipt_of(_segment_key(number), memoryview(data))
                outcome.most_bytes = max(outcome.most_bytes, data.size)
                with self.spans.timed(Stage.PUT, number, 0) as sized:
                    self._objects.put(receipt.key, memoryview(data))
                    sized.size_bytes = data.size
                self._objects.put_json(receipt.key + _RECEIPT, asdict(receipt))
            except StoreError as error:
                outcome.failed[number] = str(error)
        return outcome

    def index(self) -> StepOutcome:
        """Fetch every segment, index it, and write the index back; several at once."""
        done = self._receipts(_INDEXES)
        outcome = StepOutcome(resumed=sorted(done))
        todo = [number for number in range(len(self.bounds)) if number not in done]
        with index_files.scratch_folder(
            self.segment_bytes, self._settings.workers + 2, self._folder
        ) as folder:
            _Workers(self, todo, outcome, folder).run()
        return outcome

    def load(self, folder: Path) -> tuple[list[Store], StepOutcome]:
        """Fetch every index into a folder and open it. The caller must close the stores."""
        outcome, stores = StepOutcome(), []
        receipts = self._receipts(_INDEXES)
        for number in range(len(self.bounds)):
            self._progress(number, len(self.bounds), "loading indexes")
            try:
                if number not in receipts:
                    raise StoreError(f"{_index_key(number)}: missing")
                with self.spans.timed(Stage.LOAD, number, 0) as sized:
                    own = folder / f"{number:05d}"
                    for receipt in receipts[number]:
                        path = own / receipt.key.removeprefix(f"{_index_key(number)}/")
                        path.parent.mkdir(parents=True, exist_ok=True)
                        self._objects.get_file(receipt.key, path)
                        check(receipt_of_file(receipt.key, path), receipt)
                        sized.size_bytes += receipt.size_bytes
                    stores.append(self._builder.open(own))
            except Exception as error:  # noqa: BLE001 - whatever a store raises fails its segment
                outcome.failed[number] = _reason(error)
        return stores, outcome

    def fetch_segment(self, number: int, worker: int) -> pa.RecordBatch:
        """A segment, as it was put.

        Raises:
            StoreError: it is missing, truncated or corrupt.
        """
        key = _segment_key(number)
        expected = Receipt(**self._objects.get_json(key + _RECEIPT))
        with self.spans.timed(Stage.GET, number, worker) as sized:
            data = self._objects.get(key)
            sized.size_bytes = len(data)
        with self.spans.timed(Stage.CHECK, number, worker) as sized:
            check(receipt_of(key, data), expected)
            sized.size_bytes = len(data)
        return index_files.decode(data)

    def build_index(
        self, number: int, worker: int, rows: pa.RecordBatch, folder: Path
    ) -> list[Path]:
        """Build the index of a segment; returns its files."""
        with self.spans.timed(Stage.BUILD, number, worker) as sized:
            sized.size_bytes = rows.nbytes
            return self._builder.build(rows, folder)

    def write_back(self, number: int, worker: int, files: Sequence[Path], folder: Path) -> None:
        """Put the files of an index, and then its receipt."""
        with self.spans.timed(Stage.WRITE_BACK, number, worker) as sized:
            receipts = []
            for path in files:
                key = f"{_index_key(number)}/{path.relative_to(folder).as_posix()}"
                receipt = receipt_of_file(key, path)
                self._objects.put_file(key, path)
                receipts.append(asdict(receipt))
                sized.size_bytes += receipt.size_bytes
        self._objects.put_json(f"{_index_key(number)}{_RECEIPT}", {"files": receipts})

    def remove(self) -> None:
        """Remove every object; they are no longer needed."""
        for kind in (_SEGMENTS, _INDEXES):
            for key in self._objects.keys(kind):
                self._objects.delete(key)

    def show(self, done: int, total: int) -> None:
        """Show how many indexes are finished."""
        self._progress(done, total, "indexing segments")

    @property
    def settings(self) -> PipelineSettings:
        """The settings, which say how many segments are processed at once."""
        return self._settings

    def _receipts(self, kind: str) -> dict[int, list[Receipt]]:
        """Receipts of the objects of each finished segment."""
        found = {}
        for key in self._objects.keys(kind):
            if key.endswith(_RECEIPT):
                number = int(key.removesuffix(_RECEIPT).rpartition("/")[2].split(".")[0])
                value: dict[str, Any] = self._objects.get_json(key)
                found[number] = [Receipt(**one) for one in value.get("files", [value])]
        return found


def _reason(error: Exception) -> str:
    """The reason why a segment failed; for a library's error, with its type."""
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"


def _segment_key(number: int) -> str:
    return f"{_SEGMENTS}/{number:05d}.arrow"


def _index_key(number: int) -> str:
    return f"{_INDEXES}/{number:05d}"


@dataclass
class _FetchedSegment:
    number: int
    rows: pa.RecordBatch


@dataclass
class _BuiltIndex:
    number: int
    files: list[Path]
    folder: Path


class _Workers:
    """A thread that fetches, some that build, and one that writes back, with bounded queues between
    them: a slow stage holds up those before it, which bounds memory."""

    def __init__(self, pipeline: Pipeline, todo: Sequence[int], outcome: StepOutcome, folder: Path):
        self._pipeline, self._todo, self._outcome = pipeline, todo, outcome
        self._folder, settings = folder, pipeline.settings
        self._workers = settings.workers
        self._got: queue.Queue[_FetchedSegment | None] = queue.Queue(max(1, settings.prefetch))
        self._built: queue.Queue[_BuiltIndex | None] = queue.Queue(1)
        # A segment takes a place when it is asked for, and gives it back when it is indexed.
        self._places = threading.Semaphore(settings.most_in_memory)
        self._lock = threading.Lock()
        self._bytes = 0
        self._errors: list[BaseException] = []

    def run(self) -> None:
        """Return once every segment is written back or has failed."""
        builders = [
            threading.Thread(target=self._run_guarded, args=(self._build, 1 + number), daemon=True)
            for number in range(self._workers)
        ]
        fetcher = threading.Thread(target=self._run_guarded, args=(self._fetch, 0), daemon=True)
        for thread in (fetcher, *builders):
            thread.start()
        closer = threading.Thread(target=self._close, args=(fetcher, builders), daemon=True)
        closer.start()
        self._write_back(1 + self._workers)
        closer.join()
        if self._errors:
            raise self._errors[0]

    def _run_guarded(self, work: Callable[[int], None], worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:  # noqa: BLE001 - raised by `run`, in the caller's thread
            self._errors.append(error)

    def _close(self, fetcher: threading.Thread, builders: Sequence[threading.Thread]) -> None:
        fetcher.join()
        for _ in builders:
            self._got.put(None)
        for builder in builders:
            builder.join()
        self._built.put(None)

    def _fetch(self, worker: int) -> None:
        for number in self._todo:
            self._places.acquire()
            try:
                rows = self._pipeline.fetch_segment(number, worker)
            except StoreError as error:
                self._fail(number, error)
                self._places.release()
                continue
            self._count_bytes(rows.nbytes)
            self._got.put(_FetchedSegment(number, rows))

    def _build(self, worker: int) -> None:
        while True:
            built = self._build_next(worker)
            if built is None:
                return
            # The segment's rows are gone by now: only files wait for their turn.
            if built.files:
                self._built.put(built)

    def _build_next(self, worker: int) -> _BuiltIndex | None:
        """The index of the next segment, without files if it failed; None after the last."""
        item = self._got.get()
        if item is None:
            return None
        own = self._folder / f"{item.number:05d}"
        own.mkdir()
        try:
            return _BuiltIndex(
                item.number, self._pipeline.build_index(item.number, worker, item.rows, own), own
            )
        except Exception as error:  # noqa: BLE001 - whatever a store raises fails its segment
            self._fail(item.number, error)
            shutil.rmtree(own, ignore_errors=True)
            return _BuiltIndex(item.number, [], own)
        finally:
            self._count_bytes(-item.rows.nbytes)
            self._places.release()

    def _write_back(self, worker: int) -> None:
        done = 0
        self._pipeline.show(done, len(self._todo))
        while (item := self._built.get()) is not None:
            try:
                self._pipeline.write_back(item.number, worker, item.files, item.folder)
            except StoreError as error:
                self._fail(item.number, error)
            shutil.rmtree(item.folder, ignore_errors=True)
            done += 1
            self._pipeline.show(done, len(self._todo))

    def _count_bytes(self, size_bytes: int) -> None:
        with self._lock:
            self._bytes += size_bytes
            self._outcome.most_bytes = max(self._outcome.most_bytes, self._bytes)

    def _fail(self, number: int, error: Exception) -> None:
        with self._lock:
            self._outcome.failed[number] = _reason(error)
