"""Other releases of Python packages for the process that measures a store.

VECTRIAL_FAISS_PACKAGES="faiss-cpu==1.11.0" names the packages with which faiss is measured instead
of the installed ones: requirements as pip takes them, or files of wheels. They are installed into a
folder of `paths.environments_dir()`, once, with everything else at the versions that are installed,
so that nothing but these packages differs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from vectrial.model.errors import NotInstalled, UserError
from vectrial.model.progress import LineProgress
from vectrial.util import children, paths
from vectrial.util.environments import run_step
from vectrial.util.locks import build_once
from vectrial.util.variants import suffix, variables_of

_DONE = "installed.txt"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Packages:
    """Requirements, or paths of wheels, and the environment variable that names them."""

    requirements: tuple[str, ...]
    variable: str

    @property
    def text(self) -> str:
        """The requirements as text, wheels by their file names."""
        return ", ".join(Path(one).name if _is_wheel(one) else one for one in self.requirements)


def packages_of(store: str, variant: str = "") -> Packages | None:
    """The packages that the environment names for a store; a variant's variables replace the
    general ones. None: use the installed packages.

    Raises:
        UserError: they make no sense; the message names the variable.
    """
    variable = f"VECTRIAL_{store}_PACKAGES".upper().replace("-", "_")
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    if variable in variables_of(variant):
        variable += suffix(variant)
    try:
        requirements = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"not a list of packages: {error}", where=variable) from error
    for one in requirements:
        if _is_wheel(one) and not Path(one).is_file():
            raise UserError(f"there is no file {one}", where=variable, remedy="build it first")
        # What an address or a folder holds may change, and an address may hold a password.
        if not _is_wheel(one) and ("/" in one or _NAME.match(one) is None):
            raise UserError(
                f"'{one}' is no package",
                where=variable,
                remedy='a requirement such as "faiss-cpu==1.11.0", or the file of a wheel',
            )
    return Packages(requirements, variable)


def ensure(packages: Packages, python: str, progress: LineProgress) -> Path:
    """The folder that has the packages, which are installed first if they are missing.

    Args:
        python: path of the Python that imports them.

    Raises:
        NotInstalled: they cannot be installed; the message ends with the installer's.
    """
    uv = children.uv()
    if uv is None:
        raise NotInstalled(f"{packages.variable} is installed by uv: pip install uv")
    others = _other_packages(packages, uv, python)
    folder = paths.environments_dir() / f"packages-{_hash(packages, python, others)}"

    def build(aside: Path, lock: int) -> None:
        progress(f"installing {packages.text}, as {packages.variable} asks")
        aside.mkdir(parents=True)
        pins = aside / "constraints.txt"
        pins.write_text("\n".join(others))
        wanted = [str(Path(o).resolve()) if _is_wheel(o) else o for o in packages.requirements]
        log = folder.with_name(f"{folder.name}.log")
        argv = [
            uv, "pip", "install", "--python", python, "--target", str(aside), "--compile-bytecode",
            "--constraints", str(pins), *wanted,
        ]  # fmt: skip
        log.unlink(missing_ok=True)
        run_step(argv, lock, log, f"{packages.text} ({packages.variable})", progress)
        (aside / _DONE).write_text(packages.text)

    return build_once(folder, _DONE, packages.text, build, progress).parent


def importable(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Environment of a process that finds a folder's packages before all others."""
    rest = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), rest)))}


def _is_wheel(requirement: str) -> bool:
    return requirement.endswith(".whl")


def _hash(packages: Packages, python: str, others: Sequence[str]) -> str:
    """Hash of everything that determines the folder's contents. A requirement without a version is
    looked up again each day."""
    found = hashlib.sha256("\n".join([python, sys.version, *others]).encode())
    for one in packages.requirements:
        found.update(Path(one).read_bytes() if _is_wheel(one) else one.encode())
        if not _is_wheel(one) and "==" not in one:
            found.update(date.today().isoformat().encode())
    return found.hexdigest()[:12]


def _other_packages(packages: Packages, uv: str, python: str) -> Sequence[str]:
    """Every other package that is installed, at its version."""
    freeze = [uv, "pip", "freeze", "--python", python]
    found = subprocess.run(freeze, capture_output=True, text=True, check=False)
    if found.returncode:
        raise NotInstalled(f"uv cannot list the installed packages: {found.stderr.strip()}")
    own = {_normal_name(Path(one).name) for one in packages.requirements}
    pins = [line for line in found.stdout.splitlines() if re.fullmatch(r"[\w.-]+==\S+", line)]
    return [line for line in pins if _normal_name(line) not in own]


def _normal_name(requirement: str) -> str:
    """The normalised package name, the same for all its spellings."""
    name = requirement.split("-")[0] if _is_wheel(requirement) else ""
    match = _NAME.match(name or requirement)
    return re.sub(r"[-_.]+", "-", match[0] if match else requirement).lower()
