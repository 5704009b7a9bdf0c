"""A server store without a server: it keeps rows in memory, so that it passes the gate, and its
native lane leads to a null server, which answers 0 to k - 1 whatever is asked."""

from __future__ import annotations

import os
from typing import ClassVar

from vectrial.filters import Filter
from vectrial.load.native import target
from vectrial.stores.base import Params, Wire
from vectrial.stores.memory import MemoryStore

#: host:port of the null server.
ADDRESS = "VECTRIAL_TEST_NULL_SERVER"


class NullStore(MemoryStore):
    """See above."""

    name: ClassVar[str] = "null"
    title: ClassVar[str] = "Null server"
    kind: ClassVar[str] = "server"
    protocol: ClassVar[str | None] = "null-grpc"

    def wire(self, k: int, params: Params, where: Filter | None = None) -> Wire:
        host, _, port = os.environ[ADDRESS].rpartition(":")
        return Wire(target("null-grpc", host, int(port)))
