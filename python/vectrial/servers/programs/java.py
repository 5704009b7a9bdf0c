"""The Java that servers written in Java run on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vectrial.servers.base import NoProgram

#: Folder in which Debian and other systems install it.
_PLACES = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Java:
    """The Java versions that a program runs on. variable: environment variable naming a Java."""

    least: int
    most: int
    variable: str


def find_java(required: Java, what: str) -> Path:
    """The home of the Java named by the variable, else of the newest that fits among JAVA_HOME,
    PATH, and Debian's install folders.

    The newest is chosen because Lucene uses the processor's wide instructions to compare vectors
    only from Java 21 on.

    Raises:
        NoProgram: no Java fits; the message says that `what` needs it.
    """
    if home := os.environ.get(required.variable):
        return Path(home)
    found = {place: version for place in _candidates() if (version := java_version(place))}
    fitting = [
        place for place, version in found.items() if required.least <= version <= required.most
    ]
    if fitting:
        return max(fitting, key=lambda place: found[place])
    seen = "".join(f"; {place} is {version}" for place, version in found.items())
    raise NoProgram(
        f"{what} needs Java {required.least} to {required.most}, and there is none here{seen}; "
        f"install one (Debian: apt install openjdk-{required.least}-jre-headless), or set JAVA_HOME"
        f" or {required.variable} to it"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java with this home; None if there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(), re.M)
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
