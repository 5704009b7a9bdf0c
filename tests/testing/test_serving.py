"""Servers of the conformance suite: when they run, and what ends before them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_server
from faulty_store import Frail

from vectrial.servers.provide import recipe_of
from vectrial.stores.memory import MemoryStore
from vectrial.testing.conformance.serving import Servers


@pytest.mark.slow
def test_a_server_runs_until_tests_of_another_store_are_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    servers = Servers(tmp_path)
    server = servers.server(Frail)

    def close(self: Frail) -> None:
        closed.append(server.is_alive())

    monkeypatch.setattr(Frail, "close", close)
    servers.make(Frail, tmp_path / "store")
    servers.stop(but=recipe_of(Frail))
    assert servers.server(Frail) is server
    assert tiny_server.starts(server.address) == 1
    servers.stop(but=recipe_of(MemoryStore))
    assert closed == [True], "a store ends before its server"
    assert not server.is_alive()
    again = servers.server(Frail)
    try:
        assert again is not server
        assert tiny_server.starts(again.address) == 1, "a folder of its own"
    finally:
        servers.stop()
    assert not again.is_alive()
