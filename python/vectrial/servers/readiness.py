"""Readiness of servers that answer over HTTP."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from vectrial.model.store import Address
from vectrial.servers.base import NotReady, Recipe
from vectrial.servers.local import refused_error

_ANSWER_S = 5.0
_UNAUTHORIZED, _FORBIDDEN = 401, 403


def http_ready(
    recipe: Recipe,
    address: Address,
    headers: Mapping[str, str],
    *paths: str,
    port: str = "http",
    weak_role: bool = False,
) -> Any:
    """GET each of the paths at a port, by its name, and return the JSON of the last one.

    weak_role: return None if the role, not the secrets, is refused access (403).

    Raises:
        Refused: the server wants other secrets. NotReady: it does not answer, or not with 200.
    """
    host, number = address.host_of(port), address.ports[port]
    connection = http.client.HTTPConnection(host, number, timeout=_ANSWER_S)
    if address.tls:
        trusted = ssl.create_default_context(cafile=address.ca)
        connection = http.client.HTTPSConnection(host, number, timeout=_ANSWER_S, context=trusted)
    try:
        for path in paths:
            connection.request("GET", path, headers=dict(headers))
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == _FORBIDDEN and weak_role:
                return None
            if answer.status in (_UNAUTHORIZED, _FORBIDDEN):
                raise refused_error(recipe, address, f"{path} answers {answer.status}")
            if answer.status != 200:
                raise NotReady(f"{path} answers {answer.status}")
        return json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotReady(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
