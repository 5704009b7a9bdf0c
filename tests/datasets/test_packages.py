"""Packages through their real clients, without a network: pip can read a folder of wheels."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from vectrial.model.errors import DataError, SourceUnavailable
from vectrial.model.progress import silent
from vectrial.util.packages import Client, Package, archive, unpacked_folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A wheel with one file of data, which pip finds in a folder."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    wheel = tmp_path / "wheels" / "tiny_vectors-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    info = "tiny_vectors-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("tiny_vectors/data.bin", b"\0\1\2")
        out.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-vectors\nVersion: 1.0\n"
        )
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Package(Client.PIP, "tiny-vectors", "1.0", sha256, wheel.stat().st_size / 1e6)


def test_fetched_verified_and_unpacked_once(package: Package, tmp_path: Path) -> None:
    told: list[tuple[float, float, str]] = []
    folder = unpacked_folder(package, lambda *args: told.append(args))
    assert (folder / "tiny_vectors" / "data.bin").read_bytes() == b"\0\1\2"
    assert told[-2][0] == told[-2][1] == package.megabytes
    shutil.rmtree(tmp_path / "wheels")
    assert unpacked_folder(package, silent) == folder
    shutil.rmtree(folder)
    assert unpacked_folder(package, silent) == folder  # the archive was kept


def test_another_checksum_is_refused_and_both_are_named(package: Package) -> None:
    other = replace(package, sha256="0" * 64)
    with pytest.raises(DataError) as caught:
        archive(other, silent)
    assert package.sha256 in str(caught.value)
    assert "0" * 64 in str(caught.value)


def test_a_kept_archive_that_rotted_is_fetched_again(package: Package) -> None:
    kept = archive(package, silent)
    kept.write_bytes(b"rotten")
    assert hashlib.sha256(archive(package, silent).read_bytes()).hexdigest() == package.sha256


def test_a_package_that_vanished(package: Package) -> None:
    with pytest.raises(SourceUnavailable, match=r"pip could not fetch PyPI tiny-vectors 9.9.*9\.9"):
        archive(replace(package, version="9.9"), silent)


@pytest.mark.slow
def test_where_there_is_no_pip_uv_brings_it(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert archive(package, silent).is_file()


@pytest.mark.parametrize(
    ("client", "remedy"), [(Client.NPM, "Node.js"), (Client.APT, "Debian and Ubuntu")]
)
def test_a_client_that_is_not_here(
    package: Package, monkeypatch: pytest.MonkeyPatch, client: Client, remedy: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SourceUnavailable, match=f"needs {client}.*{remedy}"):
        archive(replace(package, client=client), silent)
