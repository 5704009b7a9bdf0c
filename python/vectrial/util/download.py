"""Files by URL: resumed, bounded, and verified before they get their name.

An incomplete file is `NAME.part`, with the server's validator in `NAME.part.json`; a later call
continues it if the server still has the same file. If no checksum is published, it is recorded on
the first fetch and verified on every later one.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any

from vectrial.model.errors import DataError, SourceUnavailable
from vectrial.model.progress import Progress
from vectrial.util import paths
from vectrial.util.checksum import sha256_of

#: Some data hosts refuse clients that do not look like a browser.
_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (compatible; Vectrial)"
_CHUNK = 1 << 18
_LONGEST_WAIT_S = 60.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Remote:
    """A file to fetch, with `sha256` and `size` (bytes) if they are known beforehand."""

    url: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Policy:
    """Limits on time, attempts and size of a download.

    timeout_s: timeout for connecting, and for the next bytes.
    attempts: successive attempts without any byte before giving up.
    backoff_s: wait after the first failure; it doubles up to a minute.
    max_bytes: largest file accepted.
    spare_bytes: space that must stay free on the disk.
    """

    timeout_s: float = 30.0
    attempts: int = 5
    backoff_s: float = 1.0
    max_bytes: int = 1 << 40
    spare_bytes: int = 1 << 30
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Fetched:
    """A fetched file. `note` says if its checksum was recorded now instead of known before."""

    path: Path
    sha256: str
    note: str | None


class _TransientError(Exception):
    """A transient failure that another try may resolve."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


def download(
    remote: Remote, path: Path, progress: Progress, policy: Policy | None = None
) -> Fetched:
    """Fetch a file to `path`, unless it is there already with the right checksum.

    Raises:
        SourceUnavailable: the server refuses, lacks the file or does not answer.
        DataError: the download is too large, of the wrong length or of the wrong checksum.
    """
    policy = policy or Policy()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        return _verify(remote, path, path)
    partial = _Partial(path)
    failures = 0
    while True:
        before = partial.size
        try:
            _fetch_rest(remote, partial, progress, policy)
            break
        except _TransientError as error:
            failures = 1 if partial.size > before else failures + 1
            if failures >= policy.attempts:
                raise SourceUnavailable(
                    f"{error} ({failures} tries in a row)",
                    where=remote.url,
                    remedy="run the same command again later: it goes on where it stopped",
                ) from error
            wait = error.wait_s or policy.backoff_s * 2 ** (failures - 1)
            progress(partial.size, 0, f"{path.name}: {error}; trying again")
            policy.sleep(min(wait, _LONGEST_WAIT_S))
    try:
        fetched = _verify(remote, partial.file, path)
    except DataError:
        partial.forget()
        raise
    partial.file.replace(path)
    partial.forget()
    return fetched


class _Partial:
    """A partly downloaded file, and the server's validator for it."""

    def __init__(self, path: Path) -> None:
        self.file = path.with_name(path.name + ".part")
        self._memory = path.with_name(path.name + ".part.json")

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file.is_file() else 0

    def validator(self, url: str) -> str | None:
        """The value of If-Range, or None if the download cannot be resumed."""
        if not self.size or not self._memory.is_file():
            return None
        try:
            memory = json.loads(self._memory.read_bytes())
        except ValueError:
            return None
        return memory.get("validator") if memory.get("url") == url else None

    def remember(self, url: str, headers: Message) -> None:
        etag = headers.get("ETag", "")
        # A weak tag does not promise the same bytes.
        strong = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
        self._memory.write_text(json.dumps({"url": url, "validator": strong}))

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self._memory.unlink(missing_ok=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if after not in {"https", before}:
            raise SourceUnavailable(
                f"the server leads from {before} to {after}, which is not followed",
                where=req.full_url,
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch_rest(remote: Remote, partial: _Partial, progress: Progress, policy: Policy) -> None:
    """Download the rest of `partial`, or all of it if the server cannot resume."""
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity", "Accept": "*/*"}
    if validator := partial.validator(remote.url):
        headers |= {"Range": f"bytes={partial.size}-", "If-Range": validator}
    try:
        with _open(remote, headers, policy) as answer:
            start, total = _answer_range(answer, partial, remote)
            _check_answer(remote, answer, total, start, partial, policy)
            if not start:
                partial.remember(remote.url, answer.headers)
            _write(answer, partial, start, total, progress, policy)
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _TransientError(
            f"the connection broke off: {error or type(error).__name__}"
        ) from error


def _open(remote: Remote, headers: dict[str, str], policy: Policy) -> Any:
    opener = urllib.request.build_opener(_Redirects)
    try:
        return opener.open(
            urllib.request.Request(remote.url, headers=headers), timeout=policy.timeout_s
        )
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return error  # the answer to a range that is empty, or beyond a file that shrank
        if error.code in _PASSING:
            raise _TransientError(
                f"the server answers {error.code} {error.reason}", _retry_after_s(error)
            ) from error
        remedies = {
            403: "it may have moved or want a login; fetch it in a browser and import the file",
            404: "it has moved or was taken down",
            410: "it was taken down",
        }
        reason = str(error.reason).splitlines()[0] if error.reason else ""
        raise SourceUnavailable(
            f"the server answers {error.code} {reason}",
            where=remote.url,
            remedy=remedies.get(error.code, "it cannot be had from there"),
        ) from error
    except urllib.error.URLError as error:
        raise _TransientError(f"no connection: {error.reason}") from error


def _retry_after_s(error: urllib.error.HTTPError) -> float | None:
    seconds = error.headers.get("Retry-After", "") if error.headers else ""
    return float(seconds) if seconds.isdigit() else None


def _answer_range(answer: Any, partial: _Partial, remote: Remote) -> tuple[int, int | None]:
    """The offset of the answer's bytes, and the length of the whole file if it is known."""
    length = answer.headers.get("Content-Length")
    content = int(length) if length and length.isdigit() else None
    if answer.status == 200:
        return 0, content
    unit, _, span = answer.headers.get("Content-Range", "").partition(" ")
    first, _, whole = span.partition("/")
    total = int(whole) if whole.isdigit() else None
    if answer.status == 416 and total == partial.size:
        return partial.size, total
    if answer.status == 206 and unit == "bytes" and first.startswith(f"{partial.size}-"):
        return partial.size, total
    partial.forget()
    raise _TransientError(
        f"the server answers {answer.status} with another part than was asked for"
    )


def _check_answer(
    remote: Remote, answer: Any, total: int | None, start: int, partial: _Partial, policy: Policy
) -> None:
    """Refuse unsuitable answers before the first byte is written."""
    if answer.headers.get_content_type() == "text/html":
        raise _web_page(remote.url)
    if total is None:
        return
    if remote.size is not None and total != remote.size:
        raise DataError(
            f"the file has {total} bytes there, {remote.size} were expected",
            where=remote.url,
            remedy="it was replaced by something else; it was not fetched",
        )
    _check_size(total, remote.url, policy)
    free = shutil.disk_usage(partial.file.parent).free
    needed = total - start + policy.spare_bytes
    if free < needed:
        raise DataError(
            f"{(total - start) / 1e9:.1f} GB are to come and {free / 1e9:.1f} GB are free",
            where=str(partial.file.parent),
            remedy="free some space, or set VECTRIAL_HOME to a folder on a larger disk",
        )


def _check_size(size: int, url: str, policy: Policy) -> None:
    if size > policy.max_bytes:
        limit = f"the file has {size} bytes or more, and {policy.max_bytes} is the limit"
        raise DataError(limit, where=url)


def _web_page(url: str) -> SourceUnavailable:
    return SourceUnavailable(
        "a web page came instead of data",
        where=url,
        remedy="it has moved or wants a login; fetch it in a browser and import the file",
    )


def _write(
    answer: Any,
    partial: _Partial,
    start: int,
    total: int | None,
    progress: Progress,
    policy: Policy,
) -> None:
    if answer.status == 416:
        return
    name = partial.file.name.removesuffix(".part")
    done = start
    with partial.file.open("ab" if start else "wb") as out:
        while chunk := answer.read1(_CHUNK):
            if not done and chunk.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
                partial.forget()  # it is no beginning of the data
                raise _web_page(answer.url)
            done += len(chunk)
            _check_size(done, answer.url, policy)
            out.write(chunk)
            progress(done / 1e6, (total or 0) / 1e6, f"fetching {name} (MB)")
    if total is not None and done < total:
        raise _TransientError(f"the connection broke off after {done} of {total} bytes")


def _verify(remote: Remote, file: Path, path: Path) -> Fetched:
    """Compare a file with its known, published or recorded checksum.

    Raises:
        DataError: naming both sums.
    """
    size, found = file.stat().st_size, sha256_of(file)
    if remote.size is not None and size != remote.size:
        raise DataError(
            f"{size} bytes came, {remote.size} were expected", where=f"{remote.url} ({file})"
        )
    if remote.sha256 is not None:
        _check_sum(found, remote.sha256, "is pinned", f"{remote.url} ({path})")
        return Fetched(path, found, None)
    record = _checksum_record(remote.url)
    if record.is_file():
        source = f"was recorded on the first fetch in {record}"
        _check_sum(found, record.read_text().split()[0], source, f"{remote.url} ({path})")
    else:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(f"{found} {remote.url}\n")
    note = f"nobody published a checksum of {remote.url}: sha256 {found} was taken on trust"
    return Fetched(path, found, note)


def _check_sum(found: str, known: str, source: str, where: str) -> None:
    if found != known:
        raise DataError(
            f"the file has sha256 {found}, and {known} {source}; it was refused",
            where=where,
            remedy="remove the file and fetch it again"
            + "; if the new one is right, remove the record" * source.startswith("was recorded"),
        )


def _checksum_record(url: str) -> Path:
    name = hashlib.sha256(url.encode()).hexdigest()[:24]
    return paths.downloads_dir() / "trusted-on-first-fetch" / f"{name}.sha256"
