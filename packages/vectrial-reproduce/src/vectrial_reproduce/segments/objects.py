"""Objects in a bucket or a folder: put, got, listed and deleted, each checked by its checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.model.errors import StoreError
from vectrial.model.objects import ObjectsAccess

#: Bytes of one part of a transfer, and parts under way at once, unless given.
PART_BYTES, CONCURRENCY = 16 << 20, 4
#: Seconds until a request that is not answered has failed. Nothing is asked twice.
_TIMEOUT_S = 120.0


class ObjectError(StoreError):
    """An object could not be put, fetched or trusted; the message begins with its key."""


@dataclass(frozen=True)
class Receipt:
    """Receipt of an object: its key, bytes and SHA-256."""

    key: str
    size_bytes: int
    sha256: str


class Objects:
    """The objects under a prefix.

    Methods may be called from several threads at once.

    Args:
        access: location of the objects and access to them.
        part_bytes: size of each part of a transfer; concurrency: parts in flight at once.

    Raises:
        StoreError: the client library is not installed.
    """

    def __init__(
        self,
        access: ObjectsAccess,
        *,
        part_bytes: int = PART_BYTES,
        concurrency: int = CONCURRENCY,
    ) -> None:
        try:
            import obstore
            import obstore.store
        except ImportError as error:
            raise StoreError(
                "the environment of this store has no package 'obstore', the client of object"
                " stores: pip install 'vectrial-reproduce[objects]'"
            ) from error
        self._library: Any = obstore
        kinds: Any = obstore.store
        self._prefix = access.prefix.strip("/")
        self._part_bytes, self._concurrency = part_bytes, concurrency
        if access.folder is not None:
            self._store: Any = kinds.LocalStore(access.folder, mkdir=True)
        else:
            options: dict[str, Any] = {
                "allow_http": access.endpoint.startswith("http:"),
                "timeout": timedelta(seconds=_TIMEOUT_S),
            }
            if access.self_signed:
                options["allow_invalid_certificates"] = True
            self._store = kinds.S3Store(
                access.bucket,
                endpoint=access.endpoint,
                region=access.region,
                access_key_id=access.user,
                secret_access_key=access.password,
                client_options=options,
                retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=_TIMEOUT_S)},
                # The body's checksum is ours; signing it as well would hash it twice.
                unsigned_payload=True,
            )

    def put(self, key: str, data: memoryview | bytes) -> None:
        """Write an object in parts.

        Raises:
            ObjectError: it was not accepted.
        """
        self._put(key, self._library.Bytes(memoryview(data).cast("B")))

    def put_file(self, key: str, path: Path) -> None:
        """Write a file as an object, in parts that are read as they are sent.

        Raises:
            ObjectError: it was not accepted.
        """
        self._put(key, path)

    def _put(self, key: str, source: Any) -> None:
        with _object_errors(key):
            self._library.put(
                self._store,
                self._full_key(key),
                source,
                chunk_size=self._part_bytes,
                max_concurrency=self._concurrency,
            )

    def get(self, key: str) -> memoryview:
        """The bytes of an object, read in parts.

        Raises:
            ObjectError: it is missing, cannot be read, or was replaced meanwhile.
        """
        with _object_errors(key):
            known = self._head(key)
            # Of Arrow's pool, which uses memory again: a page that is new costs more than its copy.
            whole = memoryview(pa.allocate_buffer(known["size"])).cast("B")

            def keep(at: int, part: memoryview) -> None:
                whole[at : at + len(part)] = part

            self._get_parts(key, known, keep)
            return whole

    def get_file(self, key: str, path: Path) -> None:
        """Write an object into a file, each part as it arrives.

        Raises:
            ObjectError: it is missing, cannot be read, or was replaced meanwhile.
        """
        with _object_errors(key), path.open("wb") as file:
            known = self._head(key)
            self._get_parts(key, known, lambda at, part: _write_all(file.fileno(), part, at))

    def _head(self, key: str) -> Mapping[str, Any]:
        """The store's record of an object: its "size" in bytes and its "e_tag"."""
        from obstore.exceptions import NotFoundError, PermissionDeniedError, UnauthenticatedError

        refusals = (FileNotFoundError, NotFoundError, PermissionDeniedError, UnauthenticatedError)
        try:
            known: Mapping[str, Any] = self._library.head(self._store, self._full_key(key))
        except refusals:
            # The refusal of a HEAD has no body: that of a GET says why.
            self._library.get(self._store, self._full_key(key))
            raise
        return known

    def _get_parts(
        self, key: str, known: Mapping[str, Any], keep: Callable[[int, memoryview], None]
    ) -> None:
        """Pass every part of an object, with its offset, to `keep`, from several threads."""
        size_bytes, step = known["size"], self._part_bytes

        def read(start: int) -> None:
            options = {"range": (start, min(start + step, size_bytes)), "if_match": known["e_tag"]}
            answer = self._library.get(self._store, self._full_key(key), options=options)
            keep(start, memoryview(answer.bytes()))

        with ThreadPoolExecutor(self._concurrency) as pool:
            parts = [pool.submit(read, at) for at in range(0, size_bytes, step)]
            try:
                for part in parts:
                    part.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def keys(self, prefix: str = "") -> list[str]:
        """Keys that begin with a prefix, ascending.

        Raises:
            ObjectError: they cannot be listed.
        """
        with _object_errors(prefix or "the list of objects"):
            batches = self._library.list(self._store, self._full_key(prefix) or None)
            paths = [one["path"] for batch in batches for one in batch]
        start = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[start:] for path in paths)

    def delete(self, key: str) -> None:
        """Remove an existing object.

        Raises:
            ObjectError: it cannot be removed.
        """
        with _object_errors(key):
            self._library.delete(self._store, self._full_key(key))

    def put_json(self, key: str, value: Mapping[str, Any]) -> None:
        """Write a small object that describes others.

        Raises:
            ObjectError: it was not accepted.
        """
        self.put(key, json.dumps(value, sort_keys=True).encode())

    def get_json(self, key: str) -> dict[str, Any]:
        """The value that `put_json` wrote.

        Raises:
            ObjectError: it is missing, cannot be read, or is no such value.
        """
        try:
            value = json.loads(bytes(self.get(key)))
        except ValueError as error:
            raise ObjectError(f"{key}: corrupt: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ObjectError(f"{key}: corrupt: no object of JSON")
        return value

    def _full_key(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key


def _write_all(descriptor: int, data: memoryview, at: int) -> None:
    """Write all of `data` into a file at an offset; a single write may take only a part."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def receipt_of(key: str, data: memoryview | bytes) -> Receipt:
    """The receipt of an object with these bytes."""
    return Receipt(key, len(data), hashlib.sha256(data).hexdigest())


def receipt_of_file(key: str, path: Path) -> Receipt:
    """The receipt of an object with the bytes of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return Receipt(key, path.stat().st_size, digest.hexdigest())


def check(found: Receipt, expected: Receipt) -> None:
    """Compare a fetched object with the one that was put.

    Raises:
        ObjectError: it is truncated or corrupt.
    """
    if found.size_bytes != expected.size_bytes:
        sizes = f"{found.size_bytes:,} bytes instead of {expected.size_bytes:,}"
        word = "truncated" if found.size_bytes < expected.size_bytes else "corrupt"
        raise ObjectError(f"{expected.key}: {word}: it has {sizes}")
    if found.sha256 != expected.sha256:
        raise ObjectError(f"{expected.key}: corrupt: its SHA-256 is not that of what was put")


#: Words in the library's messages, each with the fault that it means; the first match counts.
_FAULTS = (
    ("accessdenied", "refused: the credentials are not accepted"),
    ("invalidaccesskeyid", "refused: the credentials are not accepted"),
    ("signaturedoesnotmatch", "refused: the credentials are not accepted"),
    ("requesttimetooskewed", "refused: the clocks of client and server differ too much"),
    ("xminiostoragefull", "the object store is full"),
    ("storage backend has reached", "the object store is full"),
    ("quota", "the object store is full"),
    ("no space left", "the object store is full"),
    ("nosuchbucket", "there is no such bucket"),
    ("nosuchkey", "missing"),
    ("not found", "missing"),
    ("slowdown", "the object store asks to slow down"),
    ("kind: timeout", "the object store does not answer in time"),
    ("timed out", "the object store does not answer in time"),
    ("connection refused", "the object store does not answer"),
    ("connect error", "the object store does not answer"),
    ("error sending request", "the object store does not answer"),
    ("precondition", "it was replaced while it was read"),
    ("connection reset", "the connection broke"),
    ("connection closed", "the connection broke"),
    ("incompletemessage", "the connection broke"),
    ("response body error", "the object store broke off its answer"),
)
_SAID_CHARACTERS = 300


@contextmanager
def _object_errors(key: str) -> Iterator[None]:
    """Raise the library's errors with the object's key and one clear reason."""
    from obstore.exceptions import BaseError, NotFoundError

    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        bucket = "nosuchbucket" in str(error).lower()
        why = "there is no such bucket" if bucket else "missing"
        raise ObjectError(f"{key}: {why}") from error
    except (BaseError, OSError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        low = text.lower()
        known = next((why for word, why in _FAULTS if word in low), "")
        if isinstance(error, PermissionError):
            known = known or "refused: access is denied"
        said = " ".join(text.split())[:_SAID_CHARACTERS]
        raise ObjectError(f"{key}: {known or said}") from error
