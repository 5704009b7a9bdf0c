"""TLS in front of a server that speaks none, as a managed service has it; and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

#: What a client of PostgreSQL asks before it speaks TLS.
_SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """PEM files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=null", "-addext", "subjectAltName=IP:127.0.0.1"]
    names += ["-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", str(key), "-out", str(chain)]
    try:
        subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl command to make a certificate with")
    return chain, key


@contextlib.contextmanager
def tls_front(chain: Path, key: Path, port: int, *, postgres: bool = False) -> Iterator[int]:
    """A port of loopback where TLS is spoken, whose content goes to `port` in plain.

    postgres: clients ask before, as PostgreSQL's do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if postgres:
            assert await reader.readexactly(8) == _SSL_REQUEST
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(context)
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    at_once = None if postgres else context
    front = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=at_once))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield front.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()
