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
from vectrial.results.clean import clean_for_display
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


def _version(requested: bool) -> None:
    if requested:
        # Imported here: it runs git.
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
    """Run the command given by the arguments, and exit with its status.

    A `VectrialError` becomes one line on stderr and its exit code. So does an `OSError` about a
    file or a full disk, with exit code 2. A signal becomes 128 plus its number, with a hint.
    """
    _encode()
    again = shlex.join(["vectrial", *sys.argv[1:]])
    try:
        with interrupts.handle_signals():
            interrupts.set_hint(f"interrupted; start again with: {again}")
            try:
                with interrupts.unwrap_interruption():
                    _run()
            except (SystemExit, KeyboardInterrupt):
                if not interrupts.has_arrived():
                    raise
                if interrupts.hint():
                    print(interrupts.hint(), file=sys.stderr)
                sys.exit(interrupts.exit_code())
    except KeyboardInterrupt:  # before or after all that
        sys.exit(interrupts.exit_code())
    finally:
        _flush()


def _run() -> None:
    try:
        app()
    except VectrialError as error:
        print(clean_for_display(f"vectrial: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        print(clean_for_display(f"vectrial: {where}{error.strerror}"), file=sys.stderr)
        sys.exit(2)


def _flush() -> None:
    """Flush stdout; a closed pipe is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _redirect_to_null(1)


def _redirect_to_null(number: int) -> None:
    """Redirect a file descriptor to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


class _Stderr(io.FileIO):
    """Stderr that ignores a closed pipe, so that a command continues without a reader."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            _redirect_to_null(self.fileno())
            return len(data)


def _encode() -> None:
    """Set encodings so that no text raises: UTF-8 with raw bytes of file names into a pipe; on a
    terminal, '?' for characters outside its encoding."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    if sys.stderr is sys.__stderr__ and sys.__stderr__ is not None:
        buffered = io.BufferedWriter(_Stderr(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(buffered, sys.__stderr__.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
