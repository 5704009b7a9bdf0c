"""The `vectrial` command in this process: starting one takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from typing import Any, NamedTuple

import pytest

from vectrial.cli.main import main


class Done(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]


def call(*words: object) -> Done:
    """Run `vectrial` with these words; its input is empty."""
    out, err, code = TextIOWrapper(BytesIO(), "utf-8"), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["vectrial", *map(str, words)])
        patch.setattr(sys, "stdin", StringIO())
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    out.flush()
    return Done(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]


def subcommands(command: Any) -> dict[str, Any]:
    """The commands of a group by name, those of plug-ins among them; none of another command."""
    if not hasattr(command, "list_commands"):
        return {}
    return {name: command.get_command(None, name) for name in command.list_commands(None)}
