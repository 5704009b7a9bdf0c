"""What the tests of the served pages share."""

from __future__ import annotations

from collections.abc import Callable

from starlette.testclient import TestClient

TOKEN = "a-token-of-the-tests-that-is-long"
#: Makes a client of the application.
Client = Callable[..., TestClient]
