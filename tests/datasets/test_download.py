"""Downloads from a server that fails in every way we could think of."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from faulty_http_server import Site, serving

from vectrial.model.errors import DataError, SourceUnavailable
from vectrial.model.progress import silent
from vectrial.util.download import Policy, Remote, download

CONTENT = os.urandom(1_500_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
QUICK = Policy(timeout_s=5, attempts=3, backoff_s=0, spare_bytes=0, sleep=lambda _: None)


def _leftovers(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if file != path)


def test_whole_file_with_known_checksum(tmp_path: Path) -> None:
    told: list[tuple[float, float, str]] = []
    with serving(Site({"/a.bin": CONTENT})) as site:
        got = download(
            Remote(f"{site.url}/a.bin", SUM, len(CONTENT)),
            tmp_path / "d" / "a.bin",
            lambda done, of, what: told.append((done, of, what)),
            QUICK,
        )
    assert got.path.read_bytes() == CONTENT
    assert got.note is None
    assert _leftovers(got.path) == []
    assert told[-1][0] == told[-1][1] == pytest.approx(1.5)
    assert "Mozilla" in site.seen[0]["User-Agent"]


def test_goes_on_where_the_connection_broke(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT}, drop_after=[400_000, 500_000])) as site:
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert got.path.read_bytes() == CONTENT
    asked = [request.get("Range") for request in site.seen]
    assert asked == [None, "bytes=400000-", "bytes=900000-"]
    assert site.seen[1]["If-Range"] == '"v1"'


def test_a_later_call_goes_on(tmp_path: Path) -> None:
    once = Policy(attempts=1, spare_bytes=0, sleep=lambda _: None)
    with serving(Site({"/a.bin": CONTENT}, drop_after=[400_000])) as site:
        with pytest.raises(SourceUnavailable, match="goes on where it stopped"):
            download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, once)
        assert not (tmp_path / "a.bin").exists()
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, once)
    assert got.path.read_bytes() == CONTENT
    assert site.seen[1]["Range"] == "bytes=400000-"


def test_a_file_that_changed_in_between_starts_anew(tmp_path: Path) -> None:
    once = Policy(attempts=1, spare_bytes=0, sleep=lambda _: None)
    other = CONTENT[::-1]
    with serving(Site({"/a.bin": CONTENT}, drop_after=[400_000])) as site:
        with pytest.raises(SourceUnavailable):
            download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, once)
        site.files["/a.bin"], site.etag = other, '"v2"'
        got = download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, once)
    assert got.path.read_bytes() == other


@pytest.mark.parametrize("site", [Site({}, ranges=False), Site({}, etag=None)])
def test_without_ranges_or_validators_it_starts_anew(tmp_path: Path, site: Site) -> None:
    site.files["/a.bin"] = CONTENT
    site.drop_after[:] = [400_000]
    site.seen.clear()
    with serving(site):
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert got.path.read_bytes() == CONTENT
    assert len(site.seen) == 2


def test_an_answer_of_unknown_length(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT}, tell_length=False)) as site:
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert got.path.read_bytes() == CONTENT


def test_wrong_checksum_names_both_and_keeps_nothing(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT})) as site, pytest.raises(DataError) as caught:
        download(Remote(f"{site.url}/a.bin", "0" * 64), tmp_path / "a.bin", silent, QUICK)
    assert SUM in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert list(tmp_path.glob("a.bin*")) == []


def test_wrong_length_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    with (
        serving(Site({"/a.bin": CONTENT})) as site,
        pytest.raises(DataError, match="1500000 bytes there, 77 were expected"),
    ):
        download(Remote(f"{site.url}/a.bin", None, 77), tmp_path / "a.bin", silent, QUICK)
    assert list(tmp_path.glob("a.bin*")) == []


def test_a_length_that_is_never_reached(tmp_path: Path) -> None:
    site = Site({"/a.bin": CONTENT}, claim_extra=10, ranges=False)
    with serving(site), pytest.raises(SourceUnavailable, match="3 tries in a row"):
        # Every try starts anew and ends early; that is no progress.
        download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize(("code", "remedy"), [(404, "moved or was taken down"), (403, "browser")])
def test_refusals_are_not_repeated(tmp_path: Path, code: int, remedy: str) -> None:
    with (
        serving(Site({}, status={"/a.bin": [code, code]})) as site,
        pytest.raises(SourceUnavailable, match=f"{code}.*{remedy}"),
    ):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, QUICK)
    assert len(site.seen) == 1


def test_passing_failures_are_tried_again(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT}, status={"/a.bin": [503, 429]})) as site:
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert got.sha256 == SUM


def test_waits_longer_each_time(tmp_path: Path) -> None:
    waits: list[float] = []
    policy = Policy(attempts=4, backoff_s=1, spare_bytes=0, sleep=waits.append)
    with (
        serving(Site({}, status={"/a.bin": [500] * 9})) as site,
        pytest.raises(SourceUnavailable, match="4 tries"),
    ):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, policy)
    assert waits == [1, 2, 4]


def test_a_server_that_falls_silent(tmp_path: Path) -> None:
    policy = Policy(timeout_s=2, attempts=3, backoff_s=0, spare_bytes=0, sleep=lambda _: None)
    with serving(Site({"/a.bin": CONTENT}, stall_s=30)) as site:
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, policy)
    assert got.path.read_bytes() == CONTENT
    assert len(site.seen) == 2


def test_redirects(tmp_path: Path) -> None:
    with serving(Site({"/b.bin": CONTENT}, redirects={"/a.bin": "/b.bin"})) as site:
        got = download(Remote(f"{site.url}/a.bin", SUM), tmp_path / "a.bin", silent, QUICK)
    assert got.sha256 == SUM


@pytest.mark.parametrize("target", ["/a.bin", "file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_redirects_that_lead_nowhere(tmp_path: Path, target: str) -> None:
    with serving(Site({}, redirects={"/a.bin": target})) as site, pytest.raises(SourceUnavailable):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, QUICK)
    assert list(tmp_path.glob("a.bin*")) == []


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_web_page_in_place_of_data(tmp_path: Path, kind: str) -> None:
    page = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"
    with (
        serving(Site({"/a.bin": page}, content_type=kind)) as site,
        pytest.raises(SourceUnavailable, match="a web page came instead of data"),
    ):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, QUICK)
    assert not (tmp_path / "a.bin").exists()


def test_nobody_there(tmp_path: Path) -> None:
    with serving(Site({})) as site:
        pass
    with pytest.raises(SourceUnavailable, match="no connection"):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, QUICK)


def test_size_limit_told_and_untold(tmp_path: Path) -> None:
    small = Policy(attempts=1, max_bytes=1_000_000, spare_bytes=0)
    for told in (True, False):
        with (
            serving(Site({"/a.bin": CONTENT}, tell_length=told)) as site,
            pytest.raises(DataError, match="1000000 is the limit"),
        ):
            download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, small)


def test_disk_space_is_checked_first(tmp_path: Path) -> None:
    greedy = Policy(attempts=1, spare_bytes=1 << 60)
    with (
        serving(Site({"/a.bin": CONTENT})) as site,
        pytest.raises(DataError, match="VECTRIAL_HOME"),
    ):
        download(Remote(f"{site.url}/a.bin"), tmp_path / "a.bin", silent, greedy)
    assert list(tmp_path.glob("a.bin*")) == []


def test_unknown_checksum_is_trusted_once_and_held_against_later_files(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT})) as site:
        remote = Remote(f"{site.url}/a.bin")
        first = download(remote, tmp_path / "a.bin", silent, QUICK)
        assert first.note is not None
        assert SUM in first.note
        again = download(remote, tmp_path / "a.bin", silent, QUICK)
        assert again.sha256 == SUM
        assert len(site.seen) == 1
        first.path.unlink()
        site.files["/a.bin"] = CONTENT[:-1] + b"?"
        site.etag = '"v2"'
        with pytest.raises(DataError, match=f"(?s){SUM}.*recorded on the first fetch"):
            download(remote, tmp_path / "a.bin", silent, QUICK)


def test_a_kept_file_that_rotted_is_refused(tmp_path: Path) -> None:
    with serving(Site({"/a.bin": CONTENT})) as site:
        remote = Remote(f"{site.url}/a.bin", SUM)
        download(remote, tmp_path / "a.bin", silent, QUICK)
        (tmp_path / "a.bin").write_bytes(CONTENT[:-1] + b"?")
        with pytest.raises(DataError, match="remove the file"):
            download(remote, tmp_path / "a.bin", silent, QUICK)
