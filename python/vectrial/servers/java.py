"""The Java that servers written in it run on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from vectrial.servers.base import NoProgram

#: Where Debian and others put theirs.
_PLACES = Path("/usr/lib/jvm")


def find_java(at_least: int, what: str, variables: tuple[str, ...] = ()) -> Path:
    """The home of the first Java of this version or a newer one, among those that are named by
    the environment variables `variables` and JAVA_HOME, that PATH has, and that are installed
    where Debian installs them.

    Raises:
        NoProgram: there is none; `what` needs it, as the message says.
    """
    seen = []
    for place in _candidates(variables):
        version = java_version(place)
        if version is None:
            continue
        if version >= at_least:
            return place
        seen.append(f"{place} is {version}")
    found = f"; {', '.join(dict.fromkeys(seen))}" if seen else ""
    raise NoProgram(
        f"{what} needs Java {at_least} or newer, and there is none here{found}; install one "
        f"(Debian: apt install openjdk-{at_least}-jre-headless), or set JAVA_HOME to it"
    )


def java_version(place: Path) -> int | None:
    """The major version of the Java whose home this is; None where there is none."""
    if not os.access(place / "bin" / "java", os.X_OK):
        return None
    try:
        told = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (place / "release").read_text(), re.M)
    except OSError:
        return None
    return int(told[1]) if told else None


def _candidates(variables: tuple[str, ...]) -> Iterator[Path]:
    for variable in (*variables, "JAVA_HOME"):
        if given := os.environ.get(variable):
            yield Path(given)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    if _PLACES.is_dir():
        yield from sorted(_PLACES.iterdir())
