"""An HTTP server in front of another one, which answers some requests itself.

A distribution of Elasticsearch for tests has no answer to `GET /`, which clients ask first, and no
roles: in front of it stands what the whole one would say.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What belongs to a connection and not to a message.
_OWN = ("connection", "keep-alive", "transfer-encoding", "content-length")


@dataclass(frozen=True)
class Reply:
    """status, body (sent as JSON), headers: of an answer."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def http_front(port: int, replies: Mapping[str, Reply]) -> Iterator[int]:
    """A port of loopback whose requests go to `port`.

    replies: to requests for a path that begins so; "/" is that path alone.
    """

    class Handler(_Handler):
        there = port
        own = replies

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    there: int
    own: Mapping[str, Reply]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        for begin, reply in self.own.items():
            if path == begin or (begin != "/" and path.startswith(begin)):
                said = json.dumps(reply.body).encode()
                self._send(
                    reply.status, {"content-type": "application/json", **reply.headers}, said
                )
                return
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
        connection = http.client.HTTPConnection("127.0.0.1", self.there, timeout=60)
        try:
            connection.request(self.command, self.path, body or None, sent)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self._send(answer.status, dict(answer.getheaders()), content)

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def __getattr__(self, name: str) -> Any:
        """Every method of HTTP is answered the same way."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)
