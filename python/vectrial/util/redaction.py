"""Removal of secrets from text, however a library writes them.

What is written to a log is redacted on its way: a run that is killed leaves none, and a page that
shows a run under way has none.
"""

from __future__ import annotations

import base64
import fcntl
import html
import json
import os
import re
import shlex
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, quote_plus

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
_SAYS_SO = (
    r"(?i:\b(?:password|passwd|pwd|pass|requirepass|pw|secret|token|api[_-]?key|auth)\b)"
    r"[\"'\\]*\s*(?:=>|[=:\s])\s*[\"'\\]*"
)


class Redaction:
    """Hides secret values, plain and as libraries encode them.

    Args:
        secrets: secrets of each server, by name. A short value is hidden only after a word like
            'password', in a URL before '@', and in quotes.
    """

    def __init__(self, secrets: Iterable[Mapping[str, str]]) -> None:
        servers = [dict(one) for one in secrets]
        words: set[str] = set()
        short: set[str] = set()
        for one in servers:
            for name, value in one.items():
                if name in _OPEN or not value:
                    continue
                header = _base64(f"{one.get('user', '')}:{value}".encode())
                if is_short(value):
                    short |= _escaped(value)
                    words |= {header} if len(header) > 2 * LEAST else set()
                    continue
                words |= _forms(value) | {header, header.rstrip("=")}
                lines = value.splitlines()
                words |= {line for line in lines if len(line) >= LEAST}
        # The longest first, so that no rest of one is left over.
        every = sorted(words, key=len, reverse=True)
        self._words = [word for word in every if not word.isdigit()]
        numbers = [re.escape(word) for word in every if word.isdigit()]
        # A number is not looked for within a longer one.
        self._numbers = re.compile(rf"(?<!\d)(?:{'|'.join(numbers)})(?!\d)") if numbers else None
        self._short = _in_context(short)

    def __bool__(self) -> bool:
        return bool(self._words or self._numbers or self._short)

    def text(self, content: str) -> str:
        """The text without secrets."""
        for word in self._words:
            if word in content:
                content = content.replace(word, HIDDEN)
        if self._numbers is not None:
            content = self._numbers.sub(HIDDEN, content)
        if self._short is not None:
            content = self._short.sub(_hide, content)
        return content

    def within(self, data: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {self.text(str(key)): self.within(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.within(one) for one in data]
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
    with os.fdopen(source, "rb", buffering=0) as lines, target:
        while part := lines.read(_LINE):
            left += part
            end = max(left.rfind(b"\n"), left.rfind(b"\r")) + 1
            if not end and len(left) > _LINE:
                left = _redacted(left, redaction)
                end = len(left) - _LINE // 2  # what begins before it was whole, and is hidden
            if end > 0:
                target.write(_redacted(left[:end], redaction))
                left = left[end:]
        target.write(_redacted(left, redaction))


def _redacted(said: bytes, redaction: Redaction) -> bytes:
    text = redaction.text(said.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def of_environment(more: Iterable[str] = ()) -> Redaction:
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


# -- how a value is written --------------------------------------------------------------------


def is_short(value: str) -> bool:
    """True if a secret cannot be distinguished from other text: it could be a word or a number."""
    return len(value) < LEAST and (value.isalnum() or len(value) < LEAST - 2)


def _forms(value: str) -> set[str]:
    """The forms a value takes in text: escaped, also twice, in hex and in base64."""
    once = _escaped(value)
    found = once | {twice for one in once for twice in _escaped(one)}
    for coding in ("utf-8", "utf-16-le"):
        plain = value.encode(coding, "surrogatepass")
        found |= {plain.hex(), plain.hex().upper(), plain.hex(" "), plain.hex(":")}
        found |= _in_base64(plain)
    return {one for one in found if len(one) >= min(LEAST, len(value))}


def _escaped(value: str) -> set[str]:
    quoted = {
        quote(value, safe=safe, errors="replace")
        for safe in ("", "/", "~", "!'()*", "!$&'()*+,;=", "/:@")
    }
    quoted |= {quote_plus(value, errors="replace")}
    quoted |= {re.sub("%[0-9A-F]{2}", lambda one: one[0].lower(), one) for one in quoted}
    strings = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    strings |= {one.replace("/", r"\/") for one in strings}
    bare = repr(value)[1:-1]
    raw = repr(value.encode("utf-8", "replace"))[2:-1]
    strings |= {bare, raw, repr(f"{value}'\"")[1:-1].removesuffix("\\'\"")}
    strings |= {repr(f"{value}'\"".encode("utf-8", "replace"))[2:-1].removesuffix("\\'\"")}
    marked = {html.escape(value), html.escape(value, quote=False)}
    for odd, even in (("&#x27;", "&#39;"), ("&#x27;", "&apos;"), ("&quot;", "&#34;")):
        marked |= {one.replace(odd, even) for one in marked}
    slashed = value.replace("\\", "\\\\")
    shell = {shlex.quote(value), value.replace("'", "''"), slashed}
    shell |= {slashed.replace("'", "\\'"), slashed.replace('"', '\\"')}
    return {value} | quoted | strings | marked | shell


def _in_base64(value: bytes) -> set[str]:
    """The base64 form of a value alone, and the part that neighbouring bytes do not change."""
    found = set()
    for before in range(3):
        whole = _base64(b"\0" * before + value)
        first = -(-before * 8 // 6)
        last = (before + len(value)) * 8 // 6
        found |= {whole[first:last]}
        found |= {whole, whole.rstrip("=")} if not before else set()
    found |= {one.translate(str.maketrans("+/", "-_")) for one in found}
    return found


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _in_context(values: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern of the contexts that mark a short value as a secret."""
    listed = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    if not listed:
        return None
    quotes = r"\\*[\"']|&quot;|&#x27;|&#39;"
    return re.compile(
        rf"(?P<a>{_SAYS_SO})(?:{listed})(?![A-Za-z0-9])"
        rf"|(?P<b>://[^/\s:@]*:)(?:{listed})(?=@)"
        rf"|(?P<c>(?P<q>{quotes}))(?:{listed})(?=(?P=q))"
    )


def _hide(match: re.Match[str]) -> str:
    return (match["a"] or match["b"] or match["c"]) + HIDDEN
