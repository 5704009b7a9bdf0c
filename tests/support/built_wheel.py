"""The wheel of this checkout for this machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from vectrial.util.locks import file_lock

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "vectrial"
#: What a wheel is made of, beside the package.
_SOURCES = ("engine", "suites", "Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md")


def package_files() -> set[str]:
    """Every file of the package as a wheel names it, without what compilers leave there."""
    found = [*PACKAGE.rglob("*"), *PACKAGE.glob("suites/*")]
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }


def wheel() -> Path:
    """The one in `dist` if it is newer than its sources, else one that is built now, for this
    machine alone, with what `make setup` has compiled."""
    made = [path for path in _wheels(ROOT / "dist") if path.stat().st_mtime > _newest_source()]
    if made:
        return made[-1]
    out = ROOT / "target" / "wheels"
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(out / ".making", "the wheel", print):
        python = Path(sys.executable)
        argv = ("maturin", "build", "--profile", "checkout", "--quiet", "--out", str(out))
        ask = (python, ROOT / "scripts" / "engine.py", "--digest")
        digest = subprocess.check_output(ask, text=True)
        subprocess.run(
            (python.with_name(argv[0]), *argv[1:], "--interpreter", python),
            cwd=ROOT,
            env={**os.environ, "VECTRIAL_ENGINE_SOURCES": digest.strip()},
            check=True,
        )
        return _wheels(out)[-1]


@cache
def plugin_wheels() -> list[Path]:
    """The wheels of the packages in `packages/`, built now."""
    out = ROOT / "target" / "wheels"
    out.mkdir(parents=True, exist_ok=True)
    uv = Path(sys.executable).with_name("uv")
    packages = [path.parent for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    with file_lock(out / ".making", "the wheels", print):
        for package in packages:
            words = ("build", "--wheel", "--quiet", "--offline", "--out-dir", out, package)
            subprocess.run((uv, *words), check=True)
        return [_wheels(out, f"{one.name.replace('-', '_')}-*.whl")[-1] for one in packages]


def _wheels(folder: Path, pattern: str = f"vectrial-*_{platform.machine()}.whl") -> list[Path]:
    """The wheels of a pattern, unless given Vectrial's for this machine; the newest last."""
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def _newest_source() -> float:
    """When a source was last changed, in seconds since 1970."""
    files = [PACKAGE.parent / name for name in package_files()]
    for name in _SOURCES:
        path = ROOT / name
        files += path.rglob("*") if path.is_dir() else [path]
    return max(path.stat().st_mtime for path in files if path.is_file())
