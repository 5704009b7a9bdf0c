"""Commands of child processes: Python, and uv."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module with the current Python.

    -P keeps the current folder off the module path: a file there that bears a library's name is
    data and not code. PYTHONPATH stays, with which a user names folders of code.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


def program(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that calls `main` of one of Vectrial's modules, run as `python` does."""
    return python("vectrial.util.program", module, *arguments)


def uv() -> str | None:
    """The path of uv, which is installed with Vectrial; None if it is neither beside the current
    Python nor on the PATH."""
    own = Path(sys.executable).with_name("uv")
    return str(own) if own.exists() else shutil.which("uv")
