"""Removal of secrets from text, as clients of servers write them.

Logs are redacted while they are written, so neither a killed run nor the page of a run under way
shows secrets.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

HIDDEN = "[secret]"
#: Characters of a secret that is told from other text wherever it stands. A shorter one is hidden
#: only where something says that it is one.
LEAST = 6
#: Names are no secrets, and are words that may stand anywhere.
_OPEN = frozenset({"user", "database"})
#: Variables of the environment that hold secrets, or name files that do.
_VARIABLE = re.compile(
    r"VECTRIAL_\w+?_(?P<kind>PASSWORD|TOKEN|API_KEY|KEY|SECRET)(?P<file>_FILE)?(?:__\w+)?"
)
#: Bytes of a line that is waited for; a longer one is written in parts.
_LINE = 1 << 16
#: Bytes that a program may write before anybody reads: it must not wait for us.
_PIPE = 1 << 20
#: Text before a short secret where it is recognizable as one.
_SAYS_SO = (
    r"(?i:\b(?:password|passwd|requirepass|secret|token|api[_-]?key|auth)\W{1,6})|://[^/\s:@]*:"
)


class Redaction:
    """Hides secret values: plain, quoted as in JSON, Python and addresses, and in the headers that
    send a token or a user's password.

    Args:
        secrets: secrets of each server, by name. A short value is hidden only after a word like
            'password', and in an address.
    """

    def __init__(self, secrets: Iterable[Mapping[str, str]]) -> None:
        words: set[str] = set()
        short: set[str] = set()
        for one in map(dict, secrets):
            for name, value in one.items():
                if name in _OPEN or not value:
                    continue
                (short if is_short(value) else words).update(_forms(value))
                sent = (value, f"{one.get('user', '')}:{value}")
                headers = {base64.b64encode(text.encode()).decode() for text in sent}
                words |= {header for header in headers if len(header) > LEAST}
        self._words, self._short = _pattern_of_any(words), _pattern_of_any(short, _SAYS_SO)

    def __bool__(self) -> bool:
        return self._words is not None or self._short is not None

    def contains_secret(self, content: str) -> bool:
        """True if the text has a secret that is long enough to be told from other text."""
        return self._words is not None and self._words.search(content) is not None

    def text(self, content: str) -> str:
        """The text without secrets."""
        for pattern in (self._words, self._short):
            if pattern is not None:
                content = pattern.sub(rf"\g<before>{HIDDEN}", content)
        return content

    def redact_value(self, data: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {self.text(str(key)): self.redact_value(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.redact_value(one) for one in data]
        return data

    def file(self, path: Path) -> bool:
        """Remove secrets from a finished log; returns True if there were any."""
        if not self or not path.is_file():
            return False
        before = path.read_text(encoding="utf-8", errors="surrogateescape")
        found = self.text(before)
        if found != before:
            path.write_text(found, encoding="utf-8", errors="surrogateescape")
        return found != before


class Log:
    """A log that programs append to, redacted while it is written.

    Args:
        path: path of the file. If there is nothing to hide, programs write to it themselves.
    """

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._path, self._redaction = path, redaction
        self._thread: threading.Thread | None = None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file that a program uses as its output, and keeps after the block ends."""
        if not self._redaction:
            with open(self._path, "ab", opener=_private) as file:
                yield file
            return
        source, sink = os.pipe()
        with suppress(OSError):  # where so much is not granted, what there is will do
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE)
        target = open(self._path, "ab", buffering=0, opener=_private)  # noqa: SIM115
        self._thread = threading.Thread(
            target=_redact, args=(source, target, self._redaction), daemon=True
        )
        self._thread.start()
        with os.fdopen(sink, "wb", buffering=0) as file:
            yield file

    def settle(self, seconds: float = 2.0) -> None:
        """Wait until an ended program's output is in the file, for at most `seconds`: another
        program that it started may still be writing."""
        if self._thread is not None:
            self._thread.join(seconds)


def _private(path: str, flags: int) -> int:
    """Open a file that other users cannot read."""
    return os.open(path, flags, 0o600)


def _redact(source: int, target: IO[bytes], redaction: Redaction) -> None:
    left = b""
    with os.fdopen(source, "rb", buffering=0) as lines, _closed_on_a_full_disk(target):
        while part := lines.read(_LINE):
            left += part
            end = max(left.rfind(b"\n"), left.rfind(b"\r")) + 1
            if not end and len(left) > _LINE:
                left = _redact_bytes(left, redaction)
                end = len(left) - _LINE // 2  # what begins before it was whole, and is hidden
            if end > 0:
                _append(target, _redact_bytes(left[:end], redaction))
                left = left[end:]
        _append(target, _redact_bytes(left, redaction))


def _append(target: IO[bytes], content: bytes) -> None:
    """Write at once, or lose it on a full disk: a program whose output is not read would wait for
    ever."""
    with suppress(OSError):
        target.write(content)
        target.flush()


@contextmanager
def _closed_on_a_full_disk(target: IO[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            target.close()


def _redact_bytes(content: bytes, redaction: Redaction) -> bytes:
    text = redaction.text(content.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def environment_redaction(more: Iterable[str] = ()) -> Redaction:
    """A redaction of every secret in Vectrial's environment, and of `more` values."""
    return Redaction([*environment_secrets().values(), *({"made": value} for value in more)])


def environment_secrets() -> dict[str, dict[str, str]]:
    """Secrets of the environment by variable. Files that cannot be read are left out."""
    found = {}
    for name, value in os.environ.items():
        if (match := _VARIABLE.fullmatch(name)) is None or not value:
            continue
        if match["file"]:
            try:
                value = Path(value).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                continue
        found[name] = {match["kind"].lower(): value}
    return found


def is_short(value: str) -> bool:
    """True if a secret cannot be distinguished from other text: it could be a word or a number."""
    return len(value) < LEAST and (value.isalnum() or len(value) < LEAST - 2)


def _forms(value: str) -> set[str]:
    """The forms that a value takes in messages: plain, in JSON, in Python and in an address."""
    lines = {line for line in value.splitlines() if len(line) >= LEAST}
    strings = {json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value)}
    return {value, quote(value), quote(value, safe="")} | lines | {one[1:-1] for one in strings}


def _pattern_of_any(values: Iterable[str], before: str = "") -> re.Pattern[str] | None:
    """A pattern for any of these values after `before`; a number is not found in a longer one."""
    # The longest first, so that no rest of one is left over.
    every = sorted(values, key=len, reverse=True)
    listed = "|".join(rf"(?<!\d){one}(?!\d)" if one.isdigit() else re.escape(one) for one in every)
    end = r"(?![A-Za-z0-9])" if before else ""
    return re.compile(f"(?P<before>{before})(?:{listed}){end}") if every else None
