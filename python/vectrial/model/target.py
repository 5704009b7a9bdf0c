"""Targets of the native engine's requests."""

from __future__ import annotations

from typing import TypedDict


class LoadTarget(TypedDict):
    """A server. `protocol`: a name of `engine/src/protocols/mod.rs`; `headers` go with every
    request; `options` are the protocol's own (user, database, …); `nodes`: (host, port) of each
    node of a cluster, between which connections alternate; empty for one server. `primary`: writes
    go to the first node alone."""

    protocol: str
    host: str
    port: int
    tls: LoadTls | None
    headers: list[tuple[str, str]]
    options: dict[str, str]
    nodes: list[tuple[str, int]]
    primary: bool


class LoadTls(TypedDict):
    """TLS identity of a server: its name, and certificates (DER) that may have signed its own."""

    roots: list[bytes]
    name: str
