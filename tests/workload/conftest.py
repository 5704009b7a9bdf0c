"""Fixtures for the tests of the load engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_peer import Peer, serving
from tls_front import make_certificate


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("identity"))


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving() as there:
        yield there
