"""Entry point of `vectrial`: sets up streams and signals before slow imports."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def main() -> None:
    """Entry point."""
    _open_streams()
    # Looking for plug-ins of pydantic's reads a file of every installed package, in each process.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with _silent_interrupt():
        # Imported here: it takes a while, in which Ctrl-C ends the command silently.
        from vectrial.util.program import fast_loading

        with fast_loading():
            from vectrial.cli.app import run_command_line
    run_command_line()


def _open_streams() -> None:
    """Open stdin, stdout and stderr if they are closed (`>&-`): otherwise the next opened file
    would take their place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


@contextmanager
def _silent_interrupt() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    main()
