"""The way from a clone to the first figure: what a machine lacks, where the engine comes from."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)


def requirements(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`scripts/requirements` on a machine that has the programs of one folder."""
    argv = ("/bin/bash", str(ROOT / "scripts" / "requirements"), *words)
    env = {"PATH": str(path), "PYTHON": "python3.11"}
    return subprocess.run(argv, env=env, capture_output=True, text=True)


def stub(folder: Path, *names: str) -> None:
    """Programs that succeed whatever they are asked."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_an_empty_machine_is_told_everything_in_one_list(tmp_path: Path) -> None:
    stub(tmp_path, "apt-get")
    told = requirements(tmp_path, "test-full")
    assert told.returncode == 2
    assert told.stdout == ""
    for name in ("Python 3.11", "venv", "compiler", "Rust", "chromium", "npm", "Maven", "Go"):
        assert name in told.stderr
    (command,) = (line for line in told.stderr.splitlines() if "apt-get install" in line)
    assert command.endswith(
        " python3.11 python3.11-dev python3.11-venv build-essential chromium npm maven iproute2"
        " e2fsprogs docker.io"
    )


def test_the_demo_needs_no_programs_of_the_tests(tmp_path: Path) -> None:
    stub(tmp_path, "python3.11", "c++", "cargo")
    assert requirements(tmp_path, "demo").returncode == 0
    told = requirements(tmp_path, "test")
    assert told.returncode == 2
    assert "chromium" in told.stderr
    assert "Rust" not in told.stderr
    assert "Go," not in told.stderr


def test_only_what_is_missing_is_named_where_there_is_no_apt(tmp_path: Path) -> None:
    stub(tmp_path, "python3.11", "cargo")
    told = requirements(tmp_path, "demo")
    assert told.returncode == 2
    assert re.findall(r"^  - (.*)", told.stderr, re.MULTILINE) == ["a C and C++ compiler"]
    assert "apt-get" not in told.stderr
    assert "build-essential" in told.stderr


def test_a_word_that_is_unknown_is_an_error(tmp_path: Path) -> None:
    told = requirements(tmp_path, "everything")
    assert told.returncode == 2
    assert told.stderr.startswith("there is no 'everything'")


def test_the_demo_has_the_versions_of_the_tests() -> None:
    demo, dev = (
        set(_PIN.findall((ROOT / "requirements" / f"{name}.lock").read_text("utf-8")))
        for name in ("demo", "dev")
    )
    assert demo
    assert demo <= dev


def test_locks_name_no_package_of_this_checkout() -> None:
    """They have hashes, which a folder has none of."""
    for lock in (ROOT / "requirements").glob("*.lock"):
        assert "file:" not in lock.read_text("utf-8"), lock


@pytest.fixture
def engine(tmp_path: Path) -> ModuleType:
    """`scripts/engine.py` of a checkout with two sources."""
    spec = importlib.util.spec_from_file_location("engine_script", ROOT / "scripts" / "engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ROOT = tmp_path
    for name in ("engine/src/lib.rs", "engine/Cargo.toml", "Cargo.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "dist").mkdir()
    return module


def write_wheel(folder: Path, engine: bytes, machine: str) -> Path:
    wheel = folder / "dist" / f"vectrial-1-cp311-abi3-manylinux2014_{machine}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vectrial/_engine.abi3.so", b"\x7fELF" + engine + b"\0more")
    return wheel


def test_a_wheel_of_the_same_sources_is_found(engine: ModuleType) -> None:
    wheel = write_wheel(engine.ROOT, engine.digest().encode(), platform.machine())
    assert engine.find(engine.digest()) == wheel


def test_a_wheel_of_another_machine_is_not_used(engine: ModuleType) -> None:
    write_wheel(engine.ROOT, engine.digest().encode(), "riscv64")
    assert engine.find(engine.digest()) is None


@pytest.mark.parametrize("changed", ["engine/src/lib.rs", "engine/Cargo.toml", "Cargo.lock"])
def test_an_engine_of_older_sources_is_not_used(
    engine: ModuleType, changed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wheel(engine.ROOT, engine.digest().encode(), platform.machine())
    (engine.ROOT / changed).write_text("changed")
    assert engine.find(engine.digest()) is None
    assert "not used: dist/vectrial-1" in capsys.readouterr().err


def test_a_new_source_changes_the_digest(engine: ModuleType) -> None:
    before = engine.digest()
    (engine.ROOT / "engine" / "src" / "more.rs").write_text("")
    assert engine.digest() != before


def test_the_engine_that_runs_has_the_sources_of_this_checkout(
    engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vectrial import _engine

    monkeypatch.setattr(engine, "ROOT", ROOT)
    assert engine.digest() == _engine.SOURCES


def test_make_says_what_is_missing_before_it_builds(tmp_path: Path) -> None:
    argv = ("make", "--no-print-directory", f"VENV={tmp_path / 'venv'}", "PYTHON=no-python", "demo")
    done = subprocess.run(argv, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 2
    assert "Python 3.11 as no-python" in done.stderr
    assert not (tmp_path / "venv").exists()
