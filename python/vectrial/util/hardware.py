"""Hardware that some libraries cannot do without, and whether it is here.

Asked by looking at device files, so that nothing has to be installed first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.util.suggest import suggestion

_DEV = Path("/dev")


@dataclass(frozen=True)
class Hardware:
    """A kind of hardware.

    title: its name with an article. pattern: pattern of its device files; the hardware is present
        if one of them exists. first: the device file that a message names.
    """

    title: str
    pattern: str
    first: str


#: Kinds of hardware by the names that `locks/<name>.needs` may hold.
HARDWARE = {
    "nvidia-gpu": Hardware("an NVIDIA GPU", "nvidia[0-9]*", "nvidia0"),
}


def missing_hardware(names: Iterable[str], dev: Path = _DEV) -> str:
    """The first of these kinds of hardware that is missing here, and how that was determined; empty
    if none is missing.

    dev: the folder of device files.

    Raises:
        UserError: a name is not known.
    """
    for name in names:
        if name not in HARDWARE:
            raise UserError(
                f"there is no hardware '{name}'", remedy=suggestion(name, list(HARDWARE))
            )
        kind = HARDWARE[name]
        if not any(dev.glob(kind.pattern)):
            return f"needs {kind.title}: no {dev / kind.first} here"
    return ""
