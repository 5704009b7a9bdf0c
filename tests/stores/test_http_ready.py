"""What the readiness of a server that answers over HTTP is."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from faulty_http_server import Site, serving

from vectrial.model.store import Address
from vectrial.servers.base import AccessRefused, NotReady
from vectrial.servers.readiness import http_ready
from vectrial.stores.qdrant.server import QDRANT


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (401, AccessRefused, "does not let us in: /ready answers 401"),
        (403, AccessRefused, "does not let us in: /ready answers 403"),
        (400, NotReady, "/ready answers 400"),
        (503, NotReady, "/ready answers 503"),
    ],
)
def test_a_server_is_ready_refuses_or_is_not_ready_yet(
    status: int, error: type[Exception], said: str
) -> None:
    with serving(Site({"/ready": b"yes", "/": b'{"version": "1"}'})) as site:
        port = urlsplit(site.url).port
        assert port is not None
        address = Address("127.0.0.1", {"http": port})
        assert http_ready(QDRANT, address, {}, "/ready", "/") == {"version": "1"}
        site.status["/ready"] = [status]
        with pytest.raises(error, match=said):
            http_ready(QDRANT, address, {}, "/ready", "/")
