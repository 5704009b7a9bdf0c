"""Commands of child processes: Python, and uv."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module by the Python that runs now.

    With -P the current folder is not on the module path: a file there that bears a library's name
    is data and not code. PYTHONPATH stays, by which a user names folders of code.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


def program(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that calls `main` of a module of Vectrial's, as `python` would run it."""
    return python("vectrial.util.program", module, *arguments)


def uv() -> str | None:
    """The program uv, which is installed with Vectrial; None where it is neither beside the Python
    that runs now nor on the PATH."""
    own = Path(sys.executable).with_name("uv")
    return str(own) if own.exists() else shutil.which("uv")
