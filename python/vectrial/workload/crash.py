"""Rows written to a library by a process that is then killed; see `crash_writer`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.model.schema import Schema
from vectrial.stores.common.arrow import ids_of, metadata_of, vectors_of
from vectrial.util.children import python
from vectrial.workload.python.sdk_process import Opening

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Write:
    """Insert batches in order; flush afterwards, or do not. batches: of each the ids (n,), the
    vectors (n, d) and the columns of metadata by name."""

    batches: tuple[tuple[Ids, Vectors, Mapping[str, pa.Array[Any]]], ...]
    flush: bool


class CrashWriter:
    """A separate process that creates a store, writes to it, and ends as a crash would.

    As a context manager it leaves no process behind.

    Args:
        opening: the store, which does not exist yet.
    """

    def __init__(self, opening: Opening) -> None:
        self._schema = opening.schema
        self._pipe, theirs = Pipe()
        with theirs:
            command = python(
                "vectrial.workload.crash_writer", str(theirs.fileno()), str(os.getpid())
            )
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # it is killed with all that it starts
            )
        self._pipe.send(opening)

    def __enter__(self) -> CrashWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.crash()

    def write(self, batches: Sequence[pa.RecordBatch], *, flush: bool) -> None:
        """Return when every batch was acknowledged, and the flush.

        Raises:
            StoreError: the store raised.
        """
        self._pipe.send(Write(tuple(_parts(batch, self._schema) for batch in batches), flush))
        try:
            failure = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            failure = "the writing process ended; the log of the measuring process says more"
        if failure is not None:
            raise StoreError(failure)

    def crash(self) -> None:
        """End it by SIGKILL. Harmless twice."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._pipe.close()


def _parts(
    batch: pa.RecordBatch, schema: Schema
) -> tuple[Ids, Vectors, Mapping[str, pa.Array[Any]]]:
    """A batch taken apart: pickled whole, it would forget which values cannot be missing."""
    metadata = metadata_of(batch, schema)
    columns = dict(zip(metadata.schema.names, metadata.columns, strict=True))
    return ids_of(batch), np.array(vectors_of(batch)), columns
