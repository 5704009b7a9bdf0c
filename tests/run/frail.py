"""A server store that brings its own server down at a given moment, once, or tells a secret: a
little server that it asks whether it is there, and rows in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

import psutil
import pyarrow as pa

from vectrial.errors import StoreError
from vectrial.servers.base import NotReady
from vectrial.stores.base import Address
from vectrial.stores.memory import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

import little

LITTLE = little.recipe()
#: "load", "build" or "leak"; and the file in which it is noted that it happened.
MOMENT, NOTE = "VECTRIAL_TEST_FRAIL", "VECTRIAL_TEST_FRAIL_NOTE"


class Frail(MemoryStore):
    """See above."""

    name: ClassVar[str] = "frail"
    kind: ClassVar[str] = "server"
    server: ClassVar[str | None] = "frail:LITTLE"
    tested: ClassVar[tuple[str, ...]] = ("0.1",)

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location)
        assert address is not None
        self._address = address

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
            note.write_text(moment)
            ports = set(self._address.ports.values())
            for one in psutil.net_connections("tcp"):
                if one.pid and one.status == psutil.CONN_LISTEN and one.laddr.port in ports:
                    server = psutil.Process(one.pid)
                    server.kill()
                    psutil.wait_procs([server], timeout=30)
        try:
            little.starts(self._address)
        except NotReady as error:
            raise StoreError(f"cannot be reached: {error}") from error
