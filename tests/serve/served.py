"""What the tests of the served pages share."""

from __future__ import annotations

import threading
from collections.abc import Callable

from starlette.testclient import TestClient

from vectrial.serve.app import make_app
from vectrial.serve.guard import Access
from vectrial.serve.runs import Runs

TOKEN = "a-token-of-the-tests-that-is-long"
#: Makes a client of the application.
Client = Callable[..., TestClient]


def client_of(runs: Runs, host: str = "localhost:8877", **access: object) -> TestClient:
    """A client of the application over some runs, by default as a browser on this machine asks."""
    app = make_app(runs, Access(**access), threading.Event())  # type: ignore[arg-type]
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False)
