"""Commands of Python child processes."""

from __future__ import annotations

import sys


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module by the Python that runs now.

    With -P the current folder is not on the module path: a file there that bears a library's name
    is data and not code. PYTHONPATH stays, by which a user names folders of code.
    """
    return (sys.executable, "-P", "-m", module, *arguments)
