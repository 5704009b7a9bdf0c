"""Limits on connections to `vectrial serve` before the token: their number, the time a request may
take to arrive, and the length of its header."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections at once. A browser has six for one page.
MOST = 200
#: Seconds that a request may take to arrive, from the connection or the answer before it.
REQUEST_S = 10.0
#: Bytes of the first line and the header of a request.
HEADER_BYTES = 64 << 10


def server_config(
    app: ASGIApp,
    *,
    most: int = MOST,
    request_s: float = REQUEST_S,
    header_bytes: int = HEADER_BYTES,
) -> uvicorn.Config:
    """The configuration by which `app` is served."""

    class Connection(_Connection):
        waiting: ClassVar[dict[_Connection, None]] = {}

    Connection.most, Connection.request_s = most, request_s
    return uvicorn.Config(
        app,
        http=Connection,
        h11_max_incomplete_event_size=header_bytes,
        access_log=False,
        log_level="error",  # whoever connects could fill a terminal with warnings
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        ws="none",
    )


class _Connection(H11Protocol):
    """A connection that is closed if its request does not arrive in time, or if there are too many
    connections and it has been without a request for the longest time."""

    #: Connections whose request has not arrived, the oldest first.
    waiting: ClassVar[dict[_Connection, None]]
    most: ClassVar[int]
    request_s: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting), self)
            oldest.give_up()
        if self in self.connections:
            self._start_timeout()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._cancel_timeout()

    def on_response_complete(self) -> None:
        self._cancel_timeout()
        self._start_timeout()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, or one with too long a header."""
        buffered, _ = self.conn.trailing_data
        if len(buffered) < (self.config.h11_max_incomplete_event_size or 0):
            super().send_400_response(msg)
            return
        headers: list[tuple[bytes, bytes]] = [(b"connection", b"close"), (b"content-length", b"0")]
        answer = h11.Response(status_code=431, headers=headers)
        self.transport.write(self.conn.send(answer) or b"")
        self.transport.close()

    def give_up(self) -> None:
        """Close the connection at once, without waiting for unsent data."""
        self._cancel_timeout()
        self.connections.discard(self)
        self.transport.abort()

    def _start_timeout(self) -> None:
        self.waiting[self] = None
        self._timer = self.loop.call_later(self.request_s, self.give_up)

    def _cancel_timeout(self) -> None:
        self.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
