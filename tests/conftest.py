"""What all tests share."""

from __future__ import annotations

import signal

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Ctrl-C reaches the programs that tests start, also when this was started in a shell's
    background, where it is ignored: what is ignored stays so in every descendant."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
