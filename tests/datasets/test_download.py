"""Downloads from a server that fails in every way we could think of."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from faulty_http_server import Site, serving

from vectrial.model.errors import DataError, SourceUnavailable, VectrialError
from vectrial.model.progress import silent
from vectrial.util.download import Fetched, Policy, Remote, download

CONTENT = os.urandom(1_500_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
THERE = {"/a.bin": CONTENT}
PAGE = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"


def fetch(
    site: Site, folder: Path, sha256: str | None = SUM, size: int | None = None, **policy: Any
) -> Fetched:
    """Download a.bin into the folder, with three tries that follow one another at once."""
    known = {"timeout_s": 5, "attempts": 3, "backoff_s": 0, "spare_bytes": 0}
    rules = Policy(**{**known, "sleep": lambda _: None, **policy})
    return download(Remote(f"{site.url}/a.bin", sha256, size), folder / "a.bin", silent, rules)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("a.bin*"))


def test_a_whole_file_with_known_checksum(tmp_path: Path) -> None:
    told: list[tuple[float, float, str]] = []
    with serving(Site(THERE)) as site:
        remote = Remote(f"{site.url}/a.bin", SUM, len(CONTENT))
        got = download(remote, tmp_path / "d" / "a.bin", lambda *said: told.append(said), Policy())
    assert got.path.read_bytes() == CONTENT
    assert got.note is None
    assert left(tmp_path / "d") == ["a.bin"]
    assert told[-1][0] == told[-1][1] == pytest.approx(1.5)
    assert "Mozilla" in site.seen[0]["User-Agent"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "policy", "ranges"),
    [
        ({"drop_after": [400_000, 500_000]}, {}, [None, "bytes=400000-", "bytes=900000-"]),
        # Without ranges or validators it starts anew.
        ({"drop_after": [400_000], "ranges": False}, {}, None),
        ({"drop_after": [400_000], "etag": None}, {}, None),
        ({"tell_length": False}, {}, [None]),
        ({"status": {"/a.bin": [503, 429]}}, {}, [None, None, None]),
        ({"stall_s": 30}, {"timeout_s": 2}, None),
    ],
    ids=["dropped", "no ranges", "no validator", "unknown length", "busy", "silent"],
)
def test_a_failure_that_passes_is_made_up_for(
    tmp_path: Path, faults: dict[str, Any], policy: dict[str, Any], ranges: list[str | None] | None
) -> None:
    with serving(Site(THERE, **faults)) as site:
        got = fetch(site, tmp_path, **policy)
    assert (got.path.read_bytes(), got.sha256) == (CONTENT, SUM)
    if ranges is None:
        assert len(site.seen) == 2
    else:
        assert [request.get("Range") for request in site.seen] == ranges
        assert all(r["If-Range"] == '"v1"' for r in site.seen if r.get("Range"))


def test_a_later_call_goes_on(tmp_path: Path) -> None:
    with serving(Site(THERE, drop_after=[400_000])) as site:
        with pytest.raises(SourceUnavailable, match="goes on where it stopped"):
            fetch(site, tmp_path, attempts=1)
        assert not (tmp_path / "a.bin").exists()
        got = fetch(site, tmp_path, attempts=1)
    assert got.path.read_bytes() == CONTENT
    assert site.seen[1]["Range"] == "bytes=400000-"


def test_a_file_that_changed_in_between_starts_anew(tmp_path: Path) -> None:
    with serving(Site({**THERE}, drop_after=[400_000])) as site:
        with pytest.raises(SourceUnavailable):
            fetch(site, tmp_path, None, attempts=1)
        site.files["/a.bin"], site.etag = CONTENT[::-1], '"v2"'
        got = fetch(site, tmp_path, None, attempts=1)
    assert got.path.read_bytes() == CONTENT[::-1]


def test_redirects_are_followed(tmp_path: Path) -> None:
    with serving(Site({"/b.bin": CONTENT}, redirects={"/a.bin": "/b.bin"})) as site:
        assert fetch(site, tmp_path).sha256 == SUM


GONE, BAD = SourceUnavailable, DataError
#: Name: the site, how it is asked, the error and its message.
REFUSED: dict[str, tuple[Site, dict[str, Any], type[VectrialError], str | None]] = {
    "wrong checksum": (Site(THERE), {"sha256": "0" * 64}, BAD, f"(?s)(?=.*{SUM}).*{'0' * 64}"),
    "wrong length": (Site(THERE), {"size": 77}, BAD, "1500000 bytes there, 77 were expected"),
    "length never reached": (
        # Each try starts anew and ends early, which is no progress.
        Site(THERE, claim_extra=10, ranges=False), {}, GONE, "3 tries in a row",
    ),
    "not found": (Site({}, status={"/a.bin": [404] * 2}), {}, GONE, "404.*moved or was taken down"),
    "forbidden": (Site({}, status={"/a.bin": [403] * 2}), {}, GONE, "403.*browser"),
    "redirect to itself": (Site({}, redirects={"/a.bin": "/a.bin"}), {}, GONE, None),
    "redirect to a file": (Site({}, redirects={"/a.bin": "file:///etc/hostname"}), {}, GONE, None),
    "redirect to FTP": (Site({}, redirects={"/a.bin": "ftp://127.0.0.1/x"}), {}, GONE, None),
    "page": (
        Site({"/a.bin": PAGE}, content_type="text/html; charset=utf-8"), {"sha256": None}, GONE,
        "a web page came instead of data",
    ),
    "page called data": (Site({"/a.bin": PAGE}), {"sha256": None}, GONE, "a web page came instead"),
    "too large": (Site(THERE), {"max_bytes": 10**6}, BAD, "1000000 is the limit"),
    "too large, not told": (
        Site(THERE, tell_length=False), {"max_bytes": 10**6}, BAD, "1000000 is the limit",
    ),
    "disk full": (Site(THERE), {"spare_bytes": 1 << 60}, BAD, "VECTRIAL_HOME"),
}  # fmt: skip


PART_STAYS = {"length never reached", "too large", "too large, not told"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_had_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    site, asked, error, said = REFUSED[name]
    with serving(site), pytest.raises(error, match=said):
        fetch(site, tmp_path, **asked)
    assert not (tmp_path / "a.bin").exists()
    if name not in PART_STAYS:
        assert left(tmp_path) == []
    if name in ("not found", "forbidden"):
        assert len(site.seen) == 1, "asked once"


def test_waits_longer_each_time(tmp_path: Path) -> None:
    waits: list[float] = []
    with (
        serving(Site({}, status={"/a.bin": [500] * 9})) as site,
        pytest.raises(SourceUnavailable, match="4 tries"),
    ):
        fetch(site, tmp_path, None, attempts=4, backoff_s=1, sleep=waits.append)
    assert waits == [1, 2, 4]


def test_nobody_there(tmp_path: Path) -> None:
    with serving(Site({})) as site:
        pass
    with pytest.raises(SourceUnavailable, match="no connection"):
        fetch(site, tmp_path)


def test_unknown_checksum_is_trusted_once_and_held_against_later_files(tmp_path: Path) -> None:
    with serving(Site({**THERE})) as site:
        first = fetch(site, tmp_path, None)
        assert first.note is not None
        assert SUM in first.note
        assert fetch(site, tmp_path, None).sha256 == SUM
        assert len(site.seen) == 1
        first.path.unlink()
        site.files["/a.bin"], site.etag = CONTENT[:-1] + b"?", '"v2"'
        with pytest.raises(DataError, match=f"(?s){SUM}.*recorded on the first fetch"):
            fetch(site, tmp_path, None)


def test_a_kept_file_that_rotted_is_refused(tmp_path: Path) -> None:
    with serving(Site(THERE)) as site:
        fetch(site, tmp_path)
        (tmp_path / "a.bin").write_bytes(CONTENT[:-1] + b"?")
        with pytest.raises(DataError, match="remove the file"):
            fetch(site, tmp_path)
