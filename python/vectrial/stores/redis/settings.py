"""What stores in Redis ask of the server itself: its version, and what becomes of writes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vectrial.model.errors import StoreError
from vectrial.model.file_categories import FileKind, FileKinds
from vectrial.model.store import Address, Durability
from vectrial.model.target import LoadTarget

#: What a write can be asked to be: the settings of the server by which it is so.
DURABILITY = {
    Durability.BUFFERED: "appendonly yes, appendfsync everysec",
    Durability.SYNCED: "appendonly yes, appendfsync always",
    Durability.MEMORY: "appendonly no",
}
#: What the server's files hold. A snapshot has a vector set with its rows and its graph; after it
#: come the commands that were given since.
FILES: FileKinds = MappingProxyType(
    {
        "*.rdb": FileKind.MIXED,
        "*.aof": FileKind.LOG,
        "*.manifest": FileKind.CATALOG,
    }
)

_APPEND = {
    Durability.BUFFERED: ("yes", "everysec"),
    Durability.SYNCED: ("yes", "always"),
    Durability.MEMORY: ("no", "everysec"),
}
_POLL_S = 0.02
#: How long the server may take to write its data to the disk.
_WRITING_S = 600.0
_FLUSHED = "vectrial:flush"


def needs_version(store: str, version: str, *, least: tuple[int, int], tried: str) -> None:
    """Raise `StoreError` unless the server's version is one that the store's commands fit: of the
    major version of `least`, and not before it."""
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError as error:
        raise StoreError(f"{store}: the server says its version is '{version}'") from error
    if major != least[0] or (major, minor) < least:
        wanted = ".".join(map(str, least))
        raise StoreError(
            f"{store} is written for Redis {wanted} and later {least[0]}.x, tried with {tried}; "
            f"this server is {version}"
        )


def set_durability(client: Any, durability: Durability) -> None:
    """Bring into force what a write promises, and wait until it holds for what is there.

    Raises:
        StoreError: the server does not let its settings be changed.
    """
    import redis

    append, fsync = _APPEND[durability]
    try:
        client.config_set("appendonly", append, "appendfsync", fsync)
    except redis.ResponseError as error:
        raise StoreError(
            f"the server refuses CONFIG SET appendonly {append} appendfsync {fsync}: {error}"
        ) from error
    ends = time.monotonic() + _WRITING_S
    # Switched on, the file is first written anew in the background.
    while append == "yes" and _rewriting(client):
        if time.monotonic() > ends:
            raise StoreError(f"the append-only file was not written within {_WRITING_S:g} s")
        time.sleep(_POLL_S)


def _rewriting(client: Any) -> bool:
    told = client.info("persistence")
    return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])


def flush(client: Any) -> None:
    """Return when all that was written before, over any connection, is on the disk.

    `WAITAOF` waits for the last write of its own connection, which comes after all others in
    the file: so this connection writes something last.

    Raises:
        StoreError: it was not on the disk in time.
    """
    with client.client() as one:
        one.set(_FLUSHED, 1)
        one.delete(_FLUSHED)
        synced, _ = one.execute_command("WAITAOF", 1, 0, int(_WRITING_S * 1000))
        if not synced:
            raise StoreError(f"writes were not on the disk within {_WRITING_S:g} s")


def wire_target(address: Address, options: Mapping[str, str]) -> LoadTarget:
    """The server, as the native lane reaches it."""
    from vectrial.engine.client import target

    secrets = address.secrets
    let_in = {name: secrets[name] for name in ("user", "password") if name in secrets}
    port = address.ports["redis"]
    return target("redis", address.host, port, options={**let_in, **options})
