"""A server store without a server: it keeps rows in memory, so that it passes the gate, and in a
file, so that other processes can open it. Its native lane leads to a null server, which answers
0 to k - 1 whatever is asked."""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.engine.client import target
from vectrial.model.capabilities import Index, Params, Returning
from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.schema import Schema
from vectrial.model.store import Hits, NativeSearch, Searcher
from vectrial.stores.memory import MemoryStore

#: host:port of the null server.
ADDRESS = "VECTRIAL_TEST_NULL_SERVER"


class NullStore(MemoryStore):
    """See above."""

    name: ClassVar[str] = "null"
    title: ClassVar[str] = "Null server"
    kind: ClassVar[str] = "server"
    protocol: ClassVar[str | None] = "null-grpc"

    def wait_indexed(self) -> str:
        with pa.OSFile(str(self.location / "rows.arrow"), "wb") as file:
            batches = list(self.scan())
            with pa.ipc.new_file(file, batches[0].schema) as out:
                for batch in batches:
                    out.write_batch(batch)
        return "the file is written"

    def open(self, schema: Schema, index: Index) -> None:
        self.create(schema, index)
        with pa.OSFile(str(self.location / "rows.arrow")) as file:
            for batch in pa.ipc.open_file(file).read_all().to_batches():
                self.insert(batch)

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        host, _, port = os.environ[ADDRESS].rpartition(":")
        return NativeSearch(target("null-grpc", host, int(port)))


class UnreachableStore(NullStore):
    """Other processes cannot open it."""

    def open(self, schema: Schema, index: Index) -> None:
        raise StoreError("nobody is there")


class StampingStore(NullStore):
    """Writes down when it was opened, and when each search began, in ns of `perf_counter_ns`: a
    line each in files of its folder, named after the process."""

    def open(self, schema: Schema, index: Index) -> None:
        super().open(schema, index)
        self._stamp("opened")

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)

        def stamped(vector: NDArray[np.float32], /) -> Hits:
            self._stamp("asked")
            return search(vector)

        return stamped

    def _stamp(self, what: str) -> None:
        with (self.location / f"{what}-{os.getpid()}").open("a") as file:
            file.write(f"{perf_counter_ns()}\n")
