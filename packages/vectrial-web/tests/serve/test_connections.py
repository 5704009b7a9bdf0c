"""What connections may do before anybody is asked for the token."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from vectrial_web.serve.connections import HEADER_BYTES, server_config


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers everything, once the body is there."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await PlainTextResponse("hello")(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server with 20 connections, whose requests arrive in time on a busy machine, too."""
    with serving(request_s=60.0) as port:
        yield port


@pytest.fixture(scope="module")
def hurried() -> Iterator[int]:
    """Of one whose requests have to arrive within two seconds."""
    with serving(request_s=2.0) as port:
        yield port


@contextmanager
def serving(request_s: float) -> Iterator[int]:
    """The port of a server with 20 connections."""
    import uvicorn  # here: collecting the tests does not wait for it

    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    server = uvicorn.Server(server_config(hello, most=20, request_s=request_s))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def answer(port: int) -> str:
    """What a request of a browser gets."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def closed(connection: socket.socket) -> bool:
    """Whether the other side closes it, which is waited for."""
    connection.settimeout(30)
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


def test_a_header_without_an_end_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        sent, line = 0, b"x: " + b"a" * 8000 + b"\r\n"
        try:
            while sent < 512 << 20:
                connection.sendall(line)
                sent += len(line)
        except OSError:
            pass
        assert sent < 64 << 20, "what the system keeps on the way besides"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * (2 * HEADER_BYTES))
        connection.settimeout(30)
        assert b" 431 " in connection.recv(4096).partition(b"\r\n")[0]
    assert answer(port) == "hello"


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: ",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc",
    ],
    ids=["nothing", "header", "body"],
)
def test_a_request_that_does_not_come_is_given_up(hurried: int, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", hurried)) as connection:
        connection.sendall(begun)
        assert closed(connection)


@pytest.mark.slow
def test_slow_clients_give_way_to_a_request(port: int) -> None:
    """Three hundred half-open connections."""
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    try:
        for connection in slow[-20:]:
            connection.sendall(b"GET / HTTP/1.1\r\nx: ")
        assert answer(port) == "hello"
        assert all(closed(connection) for connection in slow[:200]), "the oldest gave way"
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.slow
def test_a_byte_now_and_then_is_no_request_either(hurried: int) -> None:
    with socket.create_connection(("127.0.0.1", hurried)) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nx: ")
            for _ in range(100):
                connection.sendall(b"a")
                time.sleep(0.05)
        except OSError:
            pass  # it is closed
        else:
            assert closed(connection)


def test_a_connection_is_kept_for_several_requests(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(3):
        connection.request("POST", "/", body=b"x" * 1000)
        assert connection.getresponse().read() == b"hello"
    connection.close()
