"""The index of one segment: what a store keeps on disk of these rows alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from vectrial.model.capabilities import Index
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.util.scratch import ScratchFolder
from vectrial.workload import ingest

#: A folder in memory, which the sync of a finished index costs nothing.
_MEMORY = Path("/dev/shm")
#: Times the bytes of all segments under way that the folder must have free: their indexes, and what
#: a store writes beside them before it is done.
_SPARE = 4


@dataclass(frozen=True)
class SegmentBuilder:
    """Builds and opens the indexes of segments.

    make: makes a store at a folder. Everything that an embedded store writes into its folder is the
        index, which can be opened from copies of these files.
    """

    make: Callable[[Path], Store]
    schema: Schema
    index: Index
    batch_rows: int

    def build(self, rows: pa.RecordBatch, folder: Path) -> list[Path]:
        """Index rows in an empty folder. Returns the files, without folders, in order of name.

        Raises:
            StoreError: the store keeps nothing in its folder, or another number of rows.
        """
        store = self.make(folder)
        try:
            store.create(self.schema, self.index)
            for start in range(0, rows.num_rows, self.batch_rows):
                store.insert(rows.slice(start, self.batch_rows))
            store.flush()
            store.build()
            store.wait_indexed()
            store.flush()
            count = store.count()
        finally:
            store.close()
        if count != rows.num_rows:
            raise StoreError(f"the index counts {count:,} rows, the segment has {rows.num_rows:,}")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            raise StoreError(f"{store.name} keeps no files of an index")
        return files

    def open(self, folder: Path) -> Store:
        """The store over the files of an index."""
        store = self.make(folder)
        store.open(self.schema, self.index)
        return store


def encode(dataset: Dataset, schema: Schema, start: int, stop: int) -> pa.Buffer:
    """Rows from `start` up to `stop` as an Arrow file of one batch."""
    batch = next(iter(ingest.batches(dataset, schema, stop - start, start=start, stop=stop)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def decode(data: memoryview) -> pa.RecordBatch:
    """The rows of a segment, as views of the received bytes: nothing is copied.

    Raises:
        StoreError: the bytes are not an Arrow file of one batch.
    """
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            if reader.num_record_batches != 1:
                raise StoreError(f"a segment has {reader.num_record_batches} batches")
            return reader.get_batch(0)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"corrupt: no Arrow file: {error}") from error


@contextmanager
def scratch_folder(segment_bytes: int, count: int, fallback: Path) -> Iterator[Path]:
    """A folder for building indexes: in memory if there is room, else in `fallback`."""
    needed = _SPARE * segment_bytes * count
    in_memory = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= needed
    place = _MEMORY if in_memory else fallback
    place.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(".segments-", place) as folder:
        yield folder
