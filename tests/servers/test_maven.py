"""Programs out of Maven's registry: unpacked as they are, only when they are what was pinned."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from vectrial.servers.base import NoProgram
from vectrial.servers.programs.java import Java, find_java, java_version
from vectrial.servers.programs.maven import Artifact, MavenProgram


def archive(path: Path, files: dict[str, str]) -> str:
    """A zip archive whose files in `bin` can be executed; its checksum."""
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if "bin/" in name else 0o644) << 16
            made.writestr(entry, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files that a stand-in for `mvn` copies from, and counts its calls in."""
    files, tools = tmp_path / "registry", tmp_path / "tools"
    files.mkdir()
    tools.mkdir()
    mvn = tools / "mvn"
    mvn.write_text(
        "#!/bin/sh\n"
        f"echo x >> {files}/calls\n"
        'for word; do case "$word" in\n'
        "  -Dartifact=*) IFS=:; set -- ${word#-Dartifact=}; unset IFS; file=$2-$3.$4;;\n"
        "  -DoutputDirectory=*) into=${word#-DoutputDirectory=};;\n"
        f'esac; done; cp "{files}/$file" "$into" || {{ echo no such artifact; exit 1; }}\n'
    )
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    return files


def program(server: str, plugin: str) -> MavenProgram:
    return MavenProgram(
        "thing",
        "1.0",
        "bin/thing",
        (
            (Artifact("org.thing", "server", "1.0", server), ""),
            (Artifact("org.thing", "plugin", "1.0", plugin), "plugins/one"),
        ),
    )


def test_archives_are_unpacked_once_with_their_permissions(registry: Path) -> None:
    server = archive(
        registry / "server-1.0.zip", {"thing-1.0/bin/thing": "#!/bin/sh", "thing-1.0/a/b": "text"}
    )
    plugin = archive(registry / "plugin-1.0.zip", {"descriptor": "of it", "c/d": "more"})
    wanted = program(server, plugin)
    assert wanted.availability().works is None
    told: list[str] = []
    found = wanted.fetch(told.append)
    assert found == wanted.folder / "bin" / "thing"
    assert os.access(found, os.X_OK)
    assert not os.access(wanted.folder / "a" / "b", os.X_OK)
    assert (wanted.folder / "plugins" / "one" / "c" / "d").read_text() == "more"
    assert any("fetching" in line for line in told)
    assert wanted.availability().works is True
    assert wanted.fetch(told.append) == found
    assert (registry / "calls").read_text().count("x") == 2, "one for each archive, and no more"


def test_another_file_than_the_pinned_one_is_refused(registry: Path) -> None:
    server = archive(registry / "server-1.0.zip", {"bin/thing": "#!/bin/sh"})
    archive(registry / "plugin-1.0.zip", {"a": "b"})
    wanted = program(server, "0" * 64)
    with pytest.raises(NoProgram, match=r"org.thing:plugin:1.0:zip is not what was pinned"):
        wanted.fetch(print)
    assert not wanted.folder.exists()


def test_a_file_that_would_be_written_elsewhere_is_refused(registry: Path) -> None:
    server = archive(registry / "server-1.0.zip", {"a/bin/thing": "x", "a/../../evil": "y"})
    with pytest.raises(NoProgram, match="evil"):
        program(server, "").fetch(print)


def test_what_the_registry_does_not_have_is_said(registry: Path) -> None:
    with pytest.raises(NoProgram, match="no such artifact"):
        program("", "").fetch(print)


def test_without_maven_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    with pytest.raises(NoProgram, match="apt install maven"):
        program("", "").fetch(print)
    told = program("", "").availability()
    assert told.works is False
    assert "install Maven" in told.reason


def java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_the_newest_java_that_fits_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = java(tmp_path / "old", "1.8.0_402"), java(tmp_path / "new", "121.0.3")
    assert (java_version(old), java_version(new), java_version(tmp_path)) == (8, 121, None)
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"))
    monkeypatch.delenv("MY_JAVA", raising=False)
    assert find_java(Java(8, 8, "MY_JAVA"), "it") == old
    assert find_java(Java(8, 121, "MY_JAVA"), "it") == new
    with pytest.raises(NoProgram, match=r"it needs Java 99 to 100.*old is 8.*install openjdk-99"):
        find_java(Java(99, 100, "MY_JAVA"), "it")
    monkeypatch.setenv("MY_JAVA", str(tmp_path))
    assert find_java(Java(99, 100, "MY_JAVA"), "it") == tmp_path, "who names one decides"
