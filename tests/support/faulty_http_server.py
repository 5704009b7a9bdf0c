"""An HTTP server on 127.0.0.1 that serves files, and fails in the ways that real ones do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served, and how.

    files: path → content. etag: None sends no validator.
    drop_after: bytes of an answer's body after which the connection is cut, one entry per
        answer; answers beyond the list are whole.
    status: path → codes to answer with first, one per request.
    redirects: path → where it leads.
    stall_s: how long an answer's body waits, once, before its second half.
    """

    files: dict[str, bytes]
    etag: str | None = '"v1"'
    ranges: bool = True
    content_type: str = "application/octet-stream"
    tell_length: bool = True
    claim_extra: int = 0
    drop_after: list[int] = field(default_factory=list)
    status: dict[str, list[int]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    stall_s: float = 0.0
    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Run a server for `site`; its address is `site.url`."""

    class Handler(_Handler):
        shown = site

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        site.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    shown: Site

    def do_GET(self) -> None:
        site = self.shown
        site.seen.append({"path": self.path, **dict(self.headers.items())})
        if codes := site.status.get(self.path):
            self.send_error(codes.pop(0))
            return
        if self.path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path not in site.files:
            self.send_error(404)
            return
        self._send(site, site.files[self.path])

    def _send(self, site: Site, content: bytes) -> None:
        start = self._start(site)
        if start > len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        self.send_header("Content-Type", site.content_type)
        body = content[start:]
        if site.tell_length:
            self.send_header("Content-Length", str(len(body) + site.claim_extra))
        self.end_headers()
        if site.drop_after:
            body = body[: site.drop_after.pop(0)]
        half = len(body) // 2
        self.wfile.write(body[:half])
        stall_s, site.stall_s = site.stall_s, 0
        site.released.wait(stall_s)
        try:
            self.wfile.write(body[half:])
        except OSError:  # the client has hung up
            self.close_connection = True

    def _start(self, site: Site) -> int:
        given = self.headers.get("Range", "")
        if not site.ranges or not given or self.headers.get("If-Range") != site.etag:
            return 0
        return int(given.removeprefix("bytes=").rstrip("-"))

    def log_message(self, format: str, *args: object) -> None:
        pass
