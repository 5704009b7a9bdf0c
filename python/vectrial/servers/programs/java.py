"""The Java that servers written in Java run on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vectrial.servers.base import NoProgram

#: Where Debian and other systems install it.
_PLACES = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Java:
    """The versions that a program runs on. variable: of the environment, which names one."""

    least: int
    most: int
    variable: str


def find_java(wanted: Java, what: str) -> Path:
    """The home of the Java that its variable names, or else of the newest that fits among those
    of JAVA_HOME, of PATH, and where Debian installs them.

    The newest, since Lucene compares vectors with the processor's wide instructions from Java 21
    on, and one at a time before.

    Raises:
        NoProgram: there is none that fits; `what` needs it, as the message says.
    """
    if home := os.environ.get(wanted.variable):
        return Path(home)
    found = {place: version for place in _candidates() if (version := java_version(place))}
    fitting = [place for place, version in found.items() if wanted.least <= version <= wanted.most]
    if fitting:
        return max(fitting, key=lambda place: found[place])
    seen = "".join(f"; {place} is {version}" for place, version in found.items())
    raise NoProgram(
        f"{what} needs Java {wanted.least} to {wanted.most}, and there is none here{seen}; "
        f"install one (Debian: apt install openjdk-{wanted.least}-jre-headless), or set JAVA_HOME"
        f" or {wanted.variable} to it"
    )


def java_version(place: Path) -> int | None:
    """The major version of the Java whose home this is; None where there is none."""
    if not os.access(place / "bin" / "java", os.X_OK):
        return None
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (place / "release").read_text(), re.M)
    except OSError:
        return None
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    if _PLACES.is_dir():
        yield from sorted(place.resolve() for place in _PLACES.iterdir())
