"""The wheels and the sdist: what is in them, and that Vectrial runs from the wheels alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from built_wheel import ROOT, package_files, plugin_wheels, wheel

pytestmark = pytest.mark.slow
#: Largest sdist in bytes: committed results are not in it.
_SDIST_BYTES = 4 << 20
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_VERSION = _PROJECT["version"]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def built() -> Path:
    return wheel()


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Vectrial's command in an environment of its own, which the README's line has made of the
    wheels: no Rust, no compiler, no git and no checkout is in reach."""
    folder = tmp_path_factory.mktemp("install")
    (line,) = re.findall(r"^ {4}(pip install .+?)(?:\s+#.*)?$", readme(), re.MULTILINE)
    uv, venv, dist = Path(sys.executable).with_name("uv"), folder / "venv", folder / "dist"
    dist.mkdir()
    for file in (built, *plugin_wheels()):
        (dist / file.name).symlink_to(file)
    outer = ("PYTHON", "VIRTUAL_ENV", "CARGO", "RUSTUP")
    plain = {name: text for name, text in os.environ.items() if not name.startswith(outer)}
    run(uv, "venv", "--quiet", "--python", sys.executable, venv)
    env = {
        "PATH": "/usr/bin:/bin",
        "VIRTUAL_ENV": str(venv),
        "UV_NO_BUILD": "1",
        "UV_CONSTRAINT": str(ROOT / "requirements" / "dev.lock"),
    }
    # The same words for uv, which has the packages in its cache.
    run("/bin/bash", "-c", f'"{uv}" --quiet {line}', env={**plain, **env}, cwd=folder)

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        program, env = venv / "bin" / "vectrial", {**plain, "PATH": str(venv / "bin")}
        return run(program, *words, env=env, cwd=folder)

    return command


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def run(
    *argv: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if name.startswith("vectrial/")}
    assert names - {"vectrial/_engine.abi3.so"} == package_files()
    assert "vectrial/_engine.abi3.so" in names
    assert "vectrial/suites/demo.toml" in names
    assert re.match(rf"vectrial-{_VERSION}-cp311-abi3-manylinux", built.name)


def test_the_wheels_of_plug_ins_have_every_file_of_theirs() -> None:
    for file in plugin_wheels():
        module = file.name.partition("-")[0]
        source = ROOT / "packages" / module.replace("_", "-") / "src"
        own = {
            path.relative_to(source).as_posix()
            for path in (source / module).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            assert {name for name in names if ".dist-info/" not in name} == own


def test_the_sdist_has_what_a_build_needs_and_no_results(tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    run(maturin, "sdist", "--out", tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < _SDIST_BYTES
    with tarfile.open(path) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Cargo.toml", "Cargo.lock", "engine/Cargo.toml", "engine/src/lib.rs", "LICENSE"}
    assert members >= needed | {f"python/{name}" for name in package_files()}
    assert not [name for name in members if name.startswith(("docs/", "tests/"))]


def test_the_demo_runs_from_the_wheel(installed: Command) -> None:
    assert installed("--version").stdout == f"vectrial {_VERSION}\n"
    stores = ("--store", "memory", "--store", "faiss")
    done = installed("run", "demo", *stores, "--repeats", "1", "--format", "jsonl")
    (last,) = map(json.loads, done.stdout.splitlines())
    assert set(last["trials"]) == {"ok"}, done.stderr
    assert last["trials"]["ok"] > 4
    assert (Path(last["folder"]) / "report" / "report.html").is_file()


def test_published_reports_and_the_conformance_suite_are_in_the_wheel(installed: Command) -> None:
    listed = map(json.loads, installed("reproduce", "--format", "jsonl").stdout.splitlines())
    declared = ROOT / "packages/vectrial-reproduce/pyproject.toml"
    project = tomllib.loads(declared.read_text(encoding="utf-8"))["project"]
    assert {row["report"] for row in listed} == set(project["entry-points"]["vectrial.reports"])
    assert "STORE" in installed("conformance", "memory", "--help").stdout
