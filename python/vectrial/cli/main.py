"""The `vectrial` command: one file per command, gathered here."""

from __future__ import annotations

import errno
import io
import sys

import typer

from vectrial import __version__
from vectrial.cli import (
    bundle,
    capacity,
    data,
    data_fetch,
    data_pictures,
    data_remove,
    experiments,
    report,
    reproduce,
    run,
    tune,
)
from vectrial.cli import compare as compare_command
from vectrial.cli import serve as serve_command
from vectrial.cli import stores as stores_command
from vectrial.cli import up as up_command
from vectrial.errors import VectrialError

app = typer.Typer(
    name="vectrial",
    help="Puts vector databases on trial: the same experiments on every store, and no number"
    " without the load, the recall and the errors of the very same requests.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_fetch.register(data.app)
data_pictures.register(data.app)
data_remove.register(data.app)
app.add_typer(data.app)
app.command()(run.run)
app.command()(capacity.capacity)
app.command()(tune.tune)
app.command()(report.report)
app.command()(compare_command.compare)
app.command()(serve_command.serve)
app.command()(reproduce.reproduce)
app.command()(bundle.bundle)
app.command()(experiments.experiments)
app.command()(stores_command.stores)
app.command()(up_command.up)
app.command()(up_command.down)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vectrial {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point: a `VectrialError` becomes one line on stderr and its exit code, and so does
    what the operating system refuses about a file (a place that cannot be written, a full disk)."""
    _encode()
    try:
        app()
    except VectrialError as error:
        print(f"vectrial: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"vectrial: {where}{error.strerror}", file=sys.stderr)
        sys.exit(2)


def _encode() -> None:
    """Nothing that is said ends the program because it cannot be shown: into a pipe goes UTF-8,
    names of files as the bytes that they are; a terminal of another encoding shows '?'."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


if __name__ == "__main__":
    main()
