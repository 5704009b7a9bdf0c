"""Sealed bundles: all of a run comes back, and no change of a single byte goes unseen."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import tarfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectrial.model.errors import DataError, UserError
from vectrial.model.trial import TrialRow
from vectrial.results import bundle
from vectrial.results.bundle import SUFFIX, open_bundle, run_folder, seal, unpack
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter, TrialRecord

SUITE = 'name = "small"\n'


def make_run(folder: Path) -> Path:
    row = TrialRow(
        "k", "memory", "embedded", "d", 100, 8, "l2", "search", "flat", {}, {"k": 10}, 1, 42
    )
    with RunWriter(folder) as writer:
        writer.begin(suite_name="small", command="vectrial run", version="0", environment={})
        writer.trial(TrialRecord(row, "ok", phases=[]))
        writer.finish()
    (folder / "suite.toml").write_text(SUITE)
    (folder / "environment.json").write_text("{}")
    (folder / "logs" / "deep").mkdir(parents=True)
    (folder / "logs" / "deep" / "a.log").write_bytes(b"said\n\xff")
    (folder / "report").mkdir()
    (folder / "report" / "report.html").write_text("made from the rest")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "r")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal(make_run(tmp_path_factory.mktemp("sealed") / "r")).path


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def seal_of(path: Path) -> str:
    with open_bundle(path) as (bundle, _):
        return bundle.seal


def rewrite(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def with_manifest(path: Path, **changes: object) -> None:
    """Change the manifest of a bundle, and nothing else."""
    files = members(path)
    manifest = {**json.loads(files["manifest.json"]), **changes}
    rewrite(path, {**files, "manifest.json": json.dumps(manifest).encode()})


def forged(sealed: Path, target: Path, name: str, content: bytes) -> Path:
    """A bundle in which one file is another, and the manifest says so."""
    files = {**members(sealed), f"run/{name}": content}
    manifest = json.loads(files["manifest.json"])
    (own,) = (one for one in manifest["files"] if one["path"] == name)
    own |= {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return rewrite(target, {**files, "manifest.json": json.dumps(manifest).encode()})


def test_a_run_comes_back(run: Path, tmp_path: Path) -> None:
    made = seal(run)
    assert made.path == run.parent / f"r{SUFFIX}"
    inside = {one.path for one in made.manifest.files}
    assert inside == {"run.duckdb", "suite.toml", "environment.json", "logs/deep/a.log"}
    checked = unpack(made.path, tmp_path / "back")
    assert checked.seal == made.seal
    assert (tmp_path / "back" / "logs" / "deep" / "a.log").read_bytes() == b"said\n\xff"
    with RunReader(tmp_path / "back") as back, RunReader(run) as there:
        assert back.table("trial").equals(there.table("trial"))
    with run_folder(made.path) as folder, RunReader(folder) as reader:
        assert reader.suite() == SUITE
    assert not folder.exists()
    with run_folder(run) as folder:
        assert folder == run


def test_the_same_run_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    one, other = seal(run, tmp_path / "one"), seal(run, tmp_path / "other")
    assert one.path.read_bytes() == other.path.read_bytes()
    assert one.seal == other.seal


def test_a_link_out_of_the_run_is_not_sent(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    (run / "logs" / "x.log").symlink_to(tmp_path / "secret")
    (run / "logs" / "y.log").symlink_to("deep/a.log")
    files = members(seal(run).path)
    assert "run/logs/x.log" not in files
    assert files["run/logs/y.log"] == b"said\n\xff"
    for name in ("suite.toml", "run.duckdb"):
        kept = tmp_path / f"kept-{name}"
        (run / name).rename(kept)
        (run / name).symlink_to(kept)
        with pytest.raises(UserError, match=f"holds no {name} of its own"):
            seal(run, tmp_path / "other")
        (run / name).unlink()
        kept.rename(run / name)


def test_a_run_without_its_suite_is_not_sealed(run: Path) -> None:
    (run / "suite.toml").unlink()
    with pytest.raises(UserError, match=r"holds no suite\.toml"):
        seal(run)


@pytest.mark.parametrize("change", ["other", "shorter", "longer", "gone"])
def test_a_run_that_changes_while_it_is_sealed(
    run: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    log, pack = run / "logs" / "deep" / "a.log", bundle._pack

    def after_a_change(*given: Any) -> None:
        contents = {"other": b"Said\n\xff", "shorter": b"sa", "longer": b"sAid\n\xffmore"}
        if change in contents:
            log.write_bytes(contents[change])
        else:
            log.unlink()
        pack(*given)

    monkeypatch.setattr(bundle, "_pack", after_a_change)
    with pytest.raises(UserError, match=r"changed while it was sealed: logs/deep/a\.log"):
        seal(run)
    assert not list(run.parent.glob(f"*{SUFFIX}"))
    assert not list(run.parent.glob(".sealing-*"))


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    seal(run)
    with pytest.raises(UserError, match="a file of that name"):
        seal(run)
    with pytest.raises(UserError, match="exists already"):
        unpack(run.parent / f"r{SUFFIX}", run)
    assert not list(tmp_path.glob(".*ealing-*"))


@pytest.mark.parametrize("able", [True, False])
def test_a_place_without_hard_links(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    """Nothing is overwritten there either, and what could not be written whole is not left."""
    linked = seal(run).path.read_bytes()

    def refused(*given: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def full(content: Any, file: Any) -> None:
        file.write(content.read(100))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(bundle.os, "link", refused)
    with pytest.raises(UserError, match="a file of that name"):
        seal(run)
    assert (tmp_path / f"r{SUFFIX}").read_bytes() == linked
    if able:
        assert seal(run, tmp_path / "card").path.read_bytes() == linked
        return
    monkeypatch.setattr(bundle.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        seal(run, tmp_path / "card")
    assert list((tmp_path / "card").iterdir()) == []


def test_what_does_not_end_as_a_file_is_a_folder(run: Path, tmp_path: Path) -> None:
    assert seal(run, tmp_path / "outbox").path == tmp_path / "outbox" / f"r{SUFFIX}"
    assert seal(run, tmp_path / "deep" / "a.tar.gz").path == tmp_path / "deep" / "a.tar.gz"
    (tmp_path / "folder.gz").mkdir()
    assert seal(run, tmp_path / "folder.gz").path.parent == tmp_path / "folder.gz"


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_a_changed_byte_is_seen(sealed: Path, data: st.DataObject) -> None:
    files = members(sealed)
    name = data.draw(st.sampled_from([n for n in files if n != "manifest.json" and files[n]]))
    changed = bytearray(files[name])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    other = sealed.with_name("changed")
    rewrite(other, {**files, name: bytes(changed)})
    with pytest.raises(DataError, match="seal is broken"), open_bundle(other):
        pass


def test_what_was_taken_out_put_in_or_renamed_is_named(run: Path) -> None:
    made = seal(run)
    files = members(made.path)
    log = "run/logs/deep/a.log"
    for changed, said in (
        ({n: c for n, c in files.items() if n != log}, "a.log is missing"),
        ({**files, "run/logs/more.log": b""}, "more.log is not sealed"),
        ({n.replace("deep", "flat"): c for n, c in files.items()}, "a.log is not sealed"),
    ):
        rewrite(made.path, changed)
        with pytest.raises(DataError, match=said), open_bundle(made.path):
            pass


def test_another_manifest_gives_another_seal(run: Path) -> None:
    made = seal(run)
    with_manifest(made.path, vectrial_version="other")
    with open_bundle(made.path) as (bundle, _):
        assert bundle.seal != made.seal
    with open_bundle(made.path, bundle.seal):
        pass
    with pytest.raises(DataError, match=f"its seal is {bundle.seal}, and not {made.seal}"):
        unpack(made.path, run.parent / "laid", made.seal)
    assert not (run.parent / "laid").exists()
    with pytest.raises(UserError, match="is no seal"), open_bundle(made.path, made.seal[:16]):
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", "other"),
        ("suite_name", "other"),
        ("started_at", "2020-01-01T00:00:00+00:00"),
        ("started_at", "yesterday"),
        ("finished_at", None),
    ],
)
def test_a_manifest_that_contradicts_its_database_is_refused(
    run: Path, name: str, value: str | None
) -> None:
    made = seal(run)
    with_manifest(made.path, **{name: value})
    said = re.escape(f"contradicts its run.duckdb: {name} is {value} in the one")
    with pytest.raises(DataError, match=said) as told:
        seal_of(made.path)
    assert told.value.where == str(made.path)


def test_the_same_instant_elsewhere_is_no_contradiction(run: Path) -> None:
    made = seal(run)
    began = datetime.fromisoformat(json.loads(members(made.path)["manifest.json"])["started_at"])
    there = began.astimezone(timezone(timedelta(hours=5)))
    with_manifest(made.path, started_at=there.isoformat())
    assert seal_of(made.path) != made.seal


def test_a_database_that_is_none_is_refused_by_the_bundles_name(
    sealed: Path, tmp_path: Path
) -> None:
    bad = forged(sealed, tmp_path / "b.gz", "run.duckdb", b"none")
    with pytest.raises(DataError, match="damaged") as told:
        seal_of(bad)
    assert told.value.where == f"{bad}: run.duckdb"


def test_what_tuning_chose_is_kept(run: Path) -> None:
    (run / "chosen.toml").write_text(SUITE)
    assert members(seal(run).path)["run/chosen.toml"] == SUITE.encode()


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"no json", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"format": 99}', "format 99, this Vectrial reads 1"),
        (b"[]", "not as it should be"),
        (b'{"format": 1}', "vectrial_version"),
    ],
)
def test_what_is_no_manifest_is_said(run: Path, manifest: bytes, said: str) -> None:
    made = seal(run)
    rewrite(made.path, {**members(made.path), "manifest.json": manifest})
    with pytest.raises(DataError, match=said), open_bundle(made.path):
        pass


def test_what_is_no_bundle_is_said(tmp_path: Path) -> None:
    other = tmp_path / "x.tar.gz"
    rewrite(other, {"readme": b"hello"})
    with pytest.raises(DataError, match="holds no manifest"), open_bundle(other):
        pass
    with pytest.raises(UserError, match="no such bundle"), open_bundle(tmp_path / "none"):
        pass
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DataError), open_bundle(tmp_path / "text"):
        pass
    rewrite(other, {"../climbs": b"x"})
    with pytest.raises(DataError, match="outside"), open_bundle(other):
        pass


def test_a_suite_that_is_no_text_is_refused(sealed: Path, tmp_path: Path) -> None:
    bad = forged(sealed, tmp_path / "b.gz", "suite.toml", b'name = "\xff"\n')
    with pytest.raises(DataError, match=r"suite.toml: this is no text in UTF-8"), open_bundle(bad):
        pass


def test_no_secret_is_sealed(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run of an earlier version that was killed before its log was cleaned."""
    monkeypatch.setenv("VECTRIAL_REDIS_PASSWORD", "hush/hush")
    log = run / "logs" / "deep" / "a.log"
    log.write_bytes(b"redis://x:hush/hush@there hush%2Fhush\xff")
    made = seal(run, tmp_path / "b.gz")
    assert b"hush" not in b"".join(members(made.path).values())
    assert log.read_bytes() == b"redis://x:[secret]@there [secret]\xff"
    (run / "suite.toml").write_text('name = "hush/hush"')
    with pytest.raises(UserError, match=r"its suite.toml holds a secret"):
        seal(run, tmp_path / "c.gz")
