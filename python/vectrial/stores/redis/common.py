"""The base of both stores in a Redis server: client, version, durability, pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from vectrial.model.capabilities import Durability, Index
from vectrial.model.errors import PartialFailure, StoreError
from vectrial.model.file_categories import FileKind, FileKinds
from vectrial.model.schema import Schema
from vectrial.model.store import Address, LoadTarget
from vectrial.stores.common.server import ServerStore, wait_until

#: Settings of the server for each durability of writes.
DURABILITY = {
    Durability.BUFFERED: "appendonly yes, appendfsync everysec",
    Durability.SYNCED: "appendonly yes, appendfsync always",
    Durability.MEMORY: "appendonly no",
}
#: A snapshot has a vector set with its rows and its graph; the append-only file has the commands
#: since then.
FILES: FileKinds = MappingProxyType(
    {"*.rdb": FileKind.MIXED, "*.aof": FileKind.LOG, "*.manifest": FileKind.CATALOG}
)
#: Commands of one pipeline.
ROWS = 1_000
_APPEND = {
    Durability.BUFFERED: ("yes", "everysec"),
    Durability.SYNCED: ("yes", "always"),
    Durability.MEMORY: ("no", "everysec"),
}
_POLL_S = 0.02
#: Longest time for the server to write its data to the disk.
_WRITING_S = 600.0
#: Longest time of an answer: a linear scan of a large set takes a while.
_ANSWER_S = 300.0
_FLUSHED = "vectrial:flush"


class RedisStore(ServerStore):
    """A collection in a Redis server.

    least: the oldest version that has the commands. tried: the one that this was tried with.
    """

    module = "redis"
    extra = "redis"
    files = FILES
    protocol = "redis"
    collection_pattern = "vectrial:{}"
    native_port = "redis"
    least: ClassVar[tuple[int, int]]
    tried: ClassVar[str]

    def _connect(self, address: Address) -> Any:
        from vectrial.stores.redis.server import connect

        return connect(address, _ANSWER_S)

    def version(self) -> str:
        return str(self._client.info("server")["redis_version"])

    def _bind(self, schema: Schema, index: Index) -> None:
        require_version(self.name, self.version(), minimum=self.least, tested=self.tried)
        set_durability(self._client, self.durability or Durability.BUFFERED)
        super()._bind(schema, index)

    def flush(self) -> None:
        """Return once everything written before, over any connection, is on disk.

        `WAITAOF` waits only for the last write of its own connection. So this connection writes
        last, after all others in the file.

        Raises:
            StoreError: it was not on disk in time.
        """
        if self.durability is Durability.MEMORY:
            return
        with self._client.client() as one:
            one.set(_FLUSHED, 1)
            one.delete(_FLUSHED)
            synced, _ = one.execute_command("WAITAOF", 1, 0, int(_WRITING_S * 1000))
            if not synced:
                raise StoreError(f"writes were not on the disk within {_WRITING_S:g} s")

    def _execute(self, pipe: Any, ids: list[int]) -> None:
        """Send a pipeline with the same number of commands for each of the rows `ids`.

        Raises:
            PartialFailure: some commands failed.
        """
        answers = pipe.execute(raise_on_error=False)
        each = len(answers) // max(len(ids), 1)
        errors = ((at, one) for at, one in enumerate(answers) if isinstance(one, Exception))
        failed = {ids[at // each]: str(error) for at, error in errors}
        if failed:
            raise PartialFailure(next(iter(failed.values())), list(failed))

    def _target_with(self, options: Mapping[str, str]) -> LoadTarget:
        secrets = self._address.secrets
        login = {name: secrets[name] for name in ("user", "password") if name in secrets}
        return self._target({**login, **options})


def require_version(store: str, version: str, *, minimum: tuple[int, int], tested: str) -> None:
    """Raise `StoreError` unless the server's version fits the store's commands: the same major
    version as `minimum`, and not older than it."""
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError as error:
        raise StoreError(f"{store}: the server says its version is '{version}'") from error
    if major != minimum[0] or (major, minor) < minimum:
        oldest = ".".join(map(str, minimum))
        raise StoreError(
            f"{store} is written for Redis {oldest} and later {minimum[0]}.x, tried with {tested}; "
            f"this server is {version}"
        )


def set_durability(client: Any, durability: Durability) -> None:
    """Set the durability of writes, and wait until it holds for the existing rows.

    Raises:
        StoreError: the server does not allow its settings to be changed.
    """
    import redis

    append, fsync = _APPEND[durability]
    try:
        client.config_set("appendonly", append, "appendfsync", fsync)
    except redis.ResponseError as error:
        raise StoreError(
            f"the server refuses CONFIG SET appendonly {append} appendfsync {fsync}: {error}"
        ) from error

    def rewritten() -> tuple[bool, str]:
        info = client.info("persistence")
        rewriting = info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]
        return not rewriting, "the append-only file is not written"

    if append == "yes":  # switched on, the file is first written anew in the background
        wait_until(rewritten, _WRITING_S, _POLL_S)
