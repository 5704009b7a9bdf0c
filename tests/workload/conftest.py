"""Fixtures for the tests of the load engine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_peer import Peer, serving


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("identity")
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


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving() as there:
        yield there
