"""`vectrial serve`: a folder of runs as web pages."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, say, stderr_console
from vectrial.model.errors import NotInstalled, UserError
from vectrial.util.child_environment import SERVE_TOKEN as TOKEN

#: Minimum length of a token.
_LENGTH = 16


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="RUNS", help="Folder of runs, or one run.")
    ] = options.RUNS,
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 picks a free one."
        ),
    ] = 8877,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on. Any address but loopback needs a token."
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that holds the token.",
            show_default=f"the variable {TOKEN}",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Additional allowed host name (repeatable)."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Serve a folder of RUNS as web pages: reports, trials, comparisons, running runs.

    \b
    vectrial serve                       ./runs at http://127.0.0.1:8877
    vectrial serve results -p 0 --open   a free port, in the browser
    VECTRIAL_SERVE_TOKEN=… vectrial serve --host 0.0.0.0

    Measures nothing itself, and contacts no other server. On this machine a form starts runs, each
    a process of its own that goes on when this command ends. Writes only a cache of the list, and
    the suite and the log of a run that it starts.
    Listens on this machine only unless --host names another address; other machines then need the
    token, and cannot start runs. There is no TLS; for remote access use SSH port forwarding: ssh -L
    8877:localhost:8877 MACHINE. Ctrl-C stops it. The address goes to stdout; with --format jsonl an
    object with the folder and the process.
    """  # fmt: skip
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise NotInstalled(
            "vectrial serve needs starlette and uvicorn: pip install 'vectrial-web[serve]'"
        ) from error
    # Imported here: the charts of pages take a while.
    from vectrial_web.serve.auth import Access, is_loopback
    from vectrial_web.serve.runs import Runs

    token = token_of(token_file)
    local = is_loopback(host)
    if not local and token is None:
        raise UserError(
            "other machines could see every run, and no token is set",
            where=f"--host {host}",
            remedy=f"set {TOKEN} or --token-file, or leave --host out and forward the port by ssh",
        )
    runs = Runs(folder)
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    runs.listing()  # starts to read new runs
    ending = threading.Event()
    # Takes seconds to import: after the checks, and before the address is printed.
    from vectrial_web.serve.app import make_app

    app = make_app(runs, Access(local, tuple(name or ()), token), ending)
    say(stderr_console(), f"{runs.root}: Ctrl-C ends")
    if form is Format.JSONL:
        print_json([{"address": address, "folder": str(runs.root), "pid": os.getpid()}])
    else:
        print(address, flush=True)
    if open_:
        webbrowser.open(address)
    _serve(app, ending, listening)


def _serve(app: Any, shutting_down: threading.Event, listening: socket.socket) -> None:
    """Serve until a signal. shutting_down: set on the signal, so that event streams end."""
    import uvicorn

    from vectrial_web.serve.connections import server_config

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            shutting_down.set()
            super().handle_exit(sig, frame)

    settings = server_config(app)
    try:
        Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:
        sys.exit(130)


def token_of(file: Path | None) -> str | None:
    """The token from the file, otherwise from the environment; None without either.

    Raises:
        UserError: it cannot be read, or it is too short.
    """
    if file is not None:
        where = str(file)
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                "the token cannot be read", where=where, remedy="give a readable text file"
            ) from error
    elif token := os.environ.get(TOKEN, "").strip():
        where = TOKEN
    else:
        return None
    if len(token) < _LENGTH:
        raise UserError(
            f"the token has {len(token)} characters, fewer than {_LENGTH} could be guessed",
            where=where,
            remedy='python -c "import secrets; print(secrets.token_urlsafe())" makes one',
        )
    return token


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UserError: the port is taken, or this machine does not have the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        raise UserError(
            f"port {port} is taken" if taken else f"{host} cannot be listened on: {error.strerror}",
            where=f"--port {port}" if taken else f"--host {host}",
            remedy="give another one, or --port 0 for a free one" if taken
            else "give an address of this machine, such as 127.0.0.1",
        ) from error  # fmt: skip
    return listening
