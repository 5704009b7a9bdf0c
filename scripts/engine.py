"""The compiled engine of this checkout, in the virtual environment that runs this.

    python scripts/engine.py            # take it from a wheel in dist/, or compile it
    python scripts/engine.py --find     # print the wheel that fits; exit code 1 if there is none
    python scripts/engine.py --digest   # print the digest of its sources

A wheel fits if its engine was compiled from these very sources, which the engine itself says. Its
Python code is of no account, since a checkout runs its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Read by the engine's `SOURCES` when it is compiled.
VARIABLE = "VECTRIAL_ENGINE_SOURCES"
_MEMBER = "vectrial/_engine.abi3.so"
_MARK = "vectrial-engine-sources:"


def digest() -> str:
    """SHA-256 of everything that decides what the engine does, after a mark that is found in it."""
    sources = [*ROOT.glob("engine/src/**/*.rs"), ROOT / "engine/Cargo.toml", ROOT / "Cargo.lock"]
    whole = hashlib.sha256()
    for path in sorted(sources):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return _MARK + whole.hexdigest()


def find(sources: str) -> Path | None:
    """The wheel in `dist/` for this machine whose engine was compiled from `sources`."""
    for wheel in sorted(ROOT.glob(f"dist/vectrial-*_{platform.machine()}.whl")):
        with zipfile.ZipFile(wheel) as archive:
            if sources.encode() in archive.read(_MEMBER):
                return wheel
        print(
            f"! not used: {wheel.relative_to(ROOT)}: its engine has other sources", file=sys.stderr
        )
    return None


def take(wheel: Path) -> None:
    """Install the engine of a wheel, and this checkout beside it."""
    with tempfile.TemporaryDirectory() as folder:
        # As `maturin develop` does it, which would compile: a wheel that leads to this folder.
        maturin("pep517", "write-dist-info", "--metadata-directory", folder)
        (info,) = Path(folder).glob("*.dist-info")
        editable = Path(folder, f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl")
        texts = {"vectrial.pth": f"{ROOT / 'python'}\n"}
        for path in info.rglob("*"):
            if path.is_file():
                texts[path.relative_to(folder).as_posix()] = path.read_text("utf-8")
        texts[f"{info.name}/RECORD"] = "".join(f"{name},,\n" for name in texts)
        with zipfile.ZipFile(editable, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
        uv, into = Path(sys.executable).with_name("uv"), ("--python", sys.executable)
        words = ("pip", "install", "--quiet", "--no-deps", "--reinstall", *into, editable)
        subprocess.run((uv, *words), check=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(_MEMBER, ROOT / "python")


def compile_engine(sources: str) -> None:
    """Compile the engine, and install this checkout beside it."""
    os.environ[VARIABLE] = sources
    maturin("develop", "--profile", "checkout", "--uv", "--quiet")


def maturin(*words: str) -> None:
    """Run maturin of this environment on this checkout."""
    program = Path(sys.executable).with_name("maturin")
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    subprocess.run((program, *words), cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)


def main() -> int:
    """Do what the word on the command line says."""
    sources = digest()
    if sys.argv[1:] == ["--digest"]:
        print(sources)
        return 0
    wheel = find(sources)
    if sys.argv[1:] == ["--find"]:
        print(wheel or "")
        return 0 if wheel else 1
    if wheel:
        print(f"The engine of {wheel.relative_to(ROOT)} has the sources of this checkout.")
        take(wheel)
    else:
        print("Compiling the engine …")
        compile_engine(sources)
    return 0


if __name__ == "__main__":
    sys.exit(main())
