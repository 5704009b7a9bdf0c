"""The `vectrial` command: one file per command, listed in `commands` and imported when it runs."""

from __future__ import annotations

import errno
import io
import os
import shlex
import sys
from typing import Any

import typer

from vectrial.cli.commands import Commands
from vectrial.model.errors import VectrialError
from vectrial.results.clean import shown
from vectrial.util import interrupts

app = typer.Typer(
    name="vectrial",
    cls=Commands,
    help="Benchmark vector databases: the same experiments on every store, with QPS, latency,"
    " recall and errors from the same requests.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        # Finding it out takes a while: it is imported only here.
        from vectrial import __version__

        typer.echo(f"vectrial {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def run_command_line() -> None:
    """Run the command that the arguments name, and exit with its status.

    A `VectrialError` becomes one line on stderr and its exit code, and so does what the operating
    system refuses about a file (a place that cannot be written, a full disk). A signal becomes 128
    and its number, with what to do next.
    """
    _encode()
    again = shlex.join(["vectrial", *sys.argv[1:]])
    try:
        with interrupts.handled():
            interrupts.set_hint(f"interrupted; start again with: {again}")
            try:
                _run()
            except (SystemExit, KeyboardInterrupt):
                if not interrupts.came():
                    raise
                if interrupts.hint():
                    print(interrupts.hint(), file=sys.stderr)
                sys.exit(interrupts.code())
    except KeyboardInterrupt:  # before or after all that
        sys.exit(interrupts.code())
    finally:
        _flush()


def _run() -> None:
    try:
        app()
    except VectrialError as error:
        print(shown(f"vectrial: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        print(shown(f"vectrial: {where}{error.strerror}"), file=sys.stderr)
        sys.exit(2)


def _flush() -> None:
    """Nobody may read the last lines: that is no fault of what was done."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(1)


def _to_nowhere(number: int) -> None:
    """Have a descriptor lead to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


class _Lasting(io.FileIO):
    """Stderr, whose reader may go: a command goes on though nobody looks at its progress."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            _to_nowhere(self.fileno())
            return len(data)


def _encode() -> None:
    """Nothing that is said ends the program because it cannot be shown: into a pipe goes UTF-8,
    names of files as the bytes that they are; a terminal of another encoding shows '?'. A stream
    that the caller closed leads nowhere."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    if sys.stderr is sys.__stderr__ and sys.__stderr__ is not None:
        lasting = io.BufferedWriter(_Lasting(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lasting, sys.__stderr__.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
