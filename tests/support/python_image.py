"""A base image with this machine's Python, for a `Dockerfile` where no registry is in reach.

It has what the images `python:3.11-slim` have and the `Dockerfile` uses: Python with pip, a shell,
a few programs, the C and C++ libraries, and beside these the packages that Vectrial needs.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from real_engine import libraries

_NAME = "python-of-this-machine"
_PROGRAMS = ("sh", "ls", "uname", "rm", "mkdir", "useradd")
#: Libraries of C and C++ that packages are linked with.
_LIBRARIES = ("libstdc++.so.6", *(f"lib{name}.so.?" for name in ("rt", "dl", "pthread", "util")))
#: Parts of the standard library and of packages that no test needs.
_LEFT_OUT = {"test", "idlelib", "lib2to3", "ensurepip", "turtledemo", "tkinter", "site-packages"}
_LEFT_OUT |= {"EXTERNALLY-MANAGED", "bin"}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/login.defs": "UID_MIN 1000\nUID_MAX 60000\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\n",
}
_ASK = (
    "import json, sysconfig as s; print(json.dumps({**s.get_paths(), 'python': s.sys.executable}))"
)


def base_image(wheel: Path, extras: str, env: dict[str, str]) -> str:
    """Import it into an engine; the name of the image.

    wheel, extras: their dependencies are installed in it, and the wheel is not.
    env: leads to the engine.
    """
    own = (Path(sys.base_prefix) / "bin" / "python3.11", "-I", "-c", _ASK)
    asked = subprocess.run(own, capture_output=True, text=True, check=True)
    paths: dict[str, str] = json.loads(asked.stdout)
    search = f"ENV PATH={paths['scripts']}:/usr/local/bin:/usr/bin:/bin"
    # Nearly a gigabyte, which pytest would keep for three runs.
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        packages, archive = Path(folder) / "packages", Path(folder) / "python.tar"
        uv = Path(sys.executable).with_name("uv")
        install = (uv, "pip", "install", "--quiet", "--target", packages)
        subprocess.run((*install, f"{wheel}[{extras}]", "pip"), check=True)
        for own_files in packages.glob("vectrial*"):
            shutil.rmtree(own_files)
        with tarfile.open(archive, "w") as tar:
            _add(tar, paths, packages)
        imported = ("docker", "import", "--change", search, str(archive), _NAME)
        subprocess.run(imported, env=env, check=True, capture_output=True)
    return _NAME


def _add(tar: tarfile.TarFile, paths: dict[str, str], packages: Path) -> None:
    """What the image consists of. Everybody may read it, wherever it came from."""
    added = set[str]()

    def add(path: Path, name: str) -> None:
        name = name.lstrip("/")
        if name not in added:
            added.add(name)
            tar.add(path.resolve(), name, filter=_readable)

    for folder, mode in (("tmp", 0o1777), ("home", 0o755)):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    for name, text in _FILES.items():
        path = packages.parent / "file"
        path.write_text(text)
        add(path, name)
    python, stdlib = Path(paths["python"]), Path(paths["stdlib"])
    programs = {f"/bin/{name}": Path(shutil.which(name) or name) for name in _PROGRAMS}
    programs |= {str(python): python, f"{python.parent}/python": python}
    extensions = list(stdlib.glob("lib-dynload/*.so"))
    for name, program in programs.items():
        add(program, name)
    system = Path(f"/usr/lib/{platform.machine()}-linux-gnu")
    shared = [path for name in _LIBRARIES for path in system.glob(name)]
    for library in shared:
        add(library, str(library))
    for program in (*programs.values(), *extensions, *shared):
        for library in libraries(program):
            add(library, str(library))
    for part in sorted(stdlib.iterdir()):
        if part.name not in _LEFT_OUT and not part.name.startswith("config-"):
            add(part, str(part))
    for part in sorted(packages.iterdir()):
        if part.name not in _LEFT_OUT:
            add(part, f"{paths['purelib']}/{part.name}")


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(entry.name).name in ("tests", "include"):  # of packages: a quarter of their files
        return None
    entry.uid = entry.gid = 0
    entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o111 else 0o444
    return entry
