"""Packages that hold data, fetched through their registry's ordinary client.

Each is pinned by version and sha256, and kept as it came under `home.downloads_dir()`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vectrial.model.errors import DataError, SourceUnavailable
from vectrial.model.progress import Progress
from vectrial.util import paths
from vectrial.util.archive import safe_unpack
from vectrial.util.checksum import sha256_of
from vectrial.util.children import python, uv
from vectrial.util.process import wait_for
from vectrial.util.scratch import ScratchFolder

_POLL_S = 0.2


class Client(StrEnum):
    """The program that fetches a package."""

    PIP = "pip"
    NPM = "npm"
    APT = "apt-get"


@dataclass(frozen=True)
class Package:
    """One package of one version.

    sha256: checksum of the archive, as the registry serves it.
    megabytes: its size, 10^6 bytes, for progress and estimates.
    python: for pip packages, the Python whose wheel is meant ("3.11"), whichever Python runs here;
        for wheels tied to one version whose content needs none. platform: likewise, the machine's.
    """

    client: Client
    name: str
    version: str
    sha256: str
    megabytes: float
    python: str = ""
    platform: str = ""

    def __str__(self) -> str:
        registry = {Client.PIP: "PyPI", Client.NPM: "npm", Client.APT: "Debian"}[self.client]
        return f"{registry} {self.name} {self.version}"

    @property
    def _stem(self) -> str:
        version = self.version.replace(":", "_")
        return f"{self.client}-{self.name}-{version}-{self.sha256[:12]}"


def archive(package: Package, progress: Progress) -> Path:
    """The package's archive, fetched unless it is here already.

    Raises:
        SourceUnavailable: no client for it here, or the client could not fetch it.
        DataError: the archive is not the pinned one; both checksums are named.
    """
    folder = paths.downloads_dir() / "packages"
    cached = folder / package._stem
    if cached.is_file() and sha256_of(cached) == package.sha256:
        return cached
    folder.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(".fetching-", folder) as target:
        _run(package, _command(package, target), target, progress)
        files = [path for path in target.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
        if len(files) != 1:
            raise SourceUnavailable(
                f"{package.client} fetched {len(files)} files for {package}, one was expected",
                remedy=f"try `{' '.join(_command(package, Path()))}` by hand",
            )
        found = sha256_of(files[0])
        if found != package.sha256:
            raise DataError(
                f"the package has sha256 {found}, and {package.sha256} is pinned; it was refused",
                where=str(package),
                remedy="something else was published under this version: do not use it",
            )
        files[0].replace(cached)
    return cached


def unpacked_folder(package: Package, progress: Progress) -> Path:
    """The folder of the package's files, fetched and unpacked unless it is here already.

    Raises:
        SourceUnavailable, DataError: see `archive`; or the archive is damaged.
    """
    folder = paths.downloads_dir() / "unpacked" / package._stem
    if folder.is_dir():
        return folder
    file = archive(package, progress)
    progress(0, 0, f"unpacking {package.name}")
    if package.client is not Client.APT:
        safe_unpack(file, folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(".unpacking-", folder.parent) as scratch:
        content = scratch / "content"
        # dpkg-deb knows the format, links included; the archive is the pinned one.
        result = subprocess.run(
            [_program("dpkg-deb", package), "-x", str(file), str(content)],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise DataError(f"dpkg-deb: {result.stderr.strip()}", where=str(file))
        content.replace(folder)
    return folder


def _program(name: str, package: Package) -> str:
    if found := shutil.which(name):
        return found
    remedy = {
        "npm": "install Node.js, which brings npm",
        "apt-get": "it comes with Debian and Ubuntu only",
        "dpkg-deb": "it comes with Debian and Ubuntu only",
    }.get(name, f"install {name}")
    raise SourceUnavailable(f"{package} needs {name}, which is not here", remedy=remedy)


def _command(package: Package, target: Path) -> list[str]:
    match package.client:
        case Client.PIP:
            pinned = f"{package.name}=={package.version}"
            arguments = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(target)]
            if package.python:
                arguments += ["--python-version", package.python]
            if package.platform:
                arguments += ["--platform", package.platform]
            return [*_pip(package), *arguments, "--disable-pip-version-check", pinned]
        case Client.NPM:
            pinned = f"{package.name}@{package.version}"
            places = ["--pack-destination", str(target), "--cache", str(target / ".cache")]
            return [_program("npm", package), "pack", pinned, *places, "--ignore-scripts"]
        case Client.APT:
            return [_program("apt-get", package), "download", f"{package.name}={package.version}"]


def _pip(package: Package) -> list[str]:
    if importlib.util.find_spec("pip"):
        return list(python("pip"))
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    if own := uv():  # as where uv made the environment: it has no pip, and uv comes with Vectrial
        environment = ("--no-project", "--isolated", "--quiet", "--python", sys.executable)
        return [own, "run", *environment, "--with", "pip", "python", "-I", "-m", "pip"]
    raise SourceUnavailable(f"{package} needs pip, which is not here", remedy="install pip")


def _run(package: Package, command: list[str], target: Path, progress: Progress) -> None:
    """Run a client in `target`, reporting progress by the bytes received."""
    environment = {**os.environ, "TMPDIR": str(target)}

    def report_progress(_: float) -> None:
        megabytes = min(_bytes_below(target) / 1e6, package.megabytes)
        progress(megabytes, package.megabytes, f"fetching {package.name} (MB)")

    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command,
            cwd=target,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        wait_for(process, report_progress, _POLL_S)
        if process.returncode:
            output.seek(0)
            raise _failure(package, output.read().decode(errors="replace"))
    progress(package.megabytes, package.megabytes, f"fetching {package.name} (MB)")


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):  # the client has moved it in the meantime
                total += (Path(parent) / name).stat().st_size
    return total


def _failure(package: Package, output: str) -> SourceUnavailable:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "e:", "npm err"))]
    reason = " ".join((errors or lines or ["it gave no reason"])[:2])[:300]
    remedy = "check the network"
    if package.client is Client.APT:
        remedy = "run `apt-get update` first, or check the network"
    return SourceUnavailable(f"{package.client} could not fetch {package}: {reason}", remedy=remedy)
