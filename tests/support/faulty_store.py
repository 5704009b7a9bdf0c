"""A server store that brings its own server down at a given moment, once, or tells a secret: a
little server that it asks whether it is there, and rows in memory."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np
import psutil
import pyarrow as pa
import tiny_server
from numpy.typing import NDArray

from vectrial.model.capabilities import Index
from vectrial.model.errors import StoreError
from vectrial.model.schema import Schema
from vectrial.model.store import Address
from vectrial.servers.base import NotReady
from vectrial.stores.memory import MemoryStore

LITTLE = tiny_server.recipe()
#: "load", "build", "gate", "read", "upsert", "delete" or "leak"; how: "kill", "stop", or "hang",
#: where the store waits for the stopped server for ever, "wait", where it waits and the server
#: lives, or "cling", where nothing but an end of its process ends that; and the file in which it is
#: noted that it happened.
MOMENT, HOW, NOTE = "VECTRIAL_TEST_FRAIL", "VECTRIAL_TEST_FRAIL_HOW", "VECTRIAL_TEST_FRAIL_NOTE"


class Frail(MemoryStore):
    """See above."""

    name: ClassVar[str] = "frail"
    kind: ClassVar[str] = "server"
    server: ClassVar[str | None] = "faulty_store:LITTLE"
    tested: ClassVar[tuple[str, ...]] = ("0.1",)

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location)
        assert address is not None
        self._address = address
        self._measured = "data" in location.parts[-2:]

    def create(self, schema: Schema, index: Index) -> None:
        if not self._measured:
            self._reach("gate")
        super().create(schema, index)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        if self._measured and len(ids) == 1:
            self._reach("read")
        return super().get(ids)

    def upsert(self, batch: pa.RecordBatch) -> None:
        if self._measured:
            self._reach("upsert")
        super().upsert(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        if self._measured:
            self._reach("delete")
        super().delete(ids)

    def insert(self, batch: pa.RecordBatch) -> None:
        self._reach("load")
        if os.environ.get(MOMENT) == "leak":
            url = f"http://admin:{self._address.secrets['api_key']}@127.0.0.1/"
            print(f"connecting to {url}", file=sys.stderr)
            raise StoreError(f"{url} answers 500")
        super().insert(batch)

    def build(self) -> None:
        self._reach("build")

    def _reach(self, moment: str) -> None:
        note = Path(os.environ[NOTE])
        if os.environ.get(MOMENT) == moment and not note.exists():
            _happen(note, moment)
            ports = set(self._address.ports.values())
            for one in psutil.net_connections("tcp"):
                if one.pid and one.status == psutil.CONN_LISTEN and one.laddr.port in ports:
                    _end(psutil.Process(one.pid))
        try:
            tiny_server.starts(self._address)
        except NotReady as error:
            raise StoreError(f"cannot be reached: {error}") from error


def _happen(note: Path, moment: str) -> None:
    """Note the moment, and wait from then on where that is asked for."""
    how = os.environ.get(HOW)
    while how == "cling":
        with suppress(BaseException):
            note.write_text(moment)  # within, as whoever sees it may interrupt this at once
            time.sleep(600)
    note.write_text(moment)
    if how == "wait":
        time.sleep(600)


def _end(server: psutil.Process) -> None:
    how = os.environ.get(HOW, "kill")
    if how == "kill":
        server.kill()
        psutil.wait_procs([server], timeout=30)
        return
    server.suspend()
    if how == "hang":
        time.sleep(600)
