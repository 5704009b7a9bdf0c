"""Kafka, a log that clusters of other servers write to: one broker without ZooKeeper, from its
archives in a Maven registry."""

from __future__ import annotations

import base64
import hashlib
import shlex
import socket
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from vectrial.model.store import Address
from vectrial.servers.base import Command, NotReady, Recipe
from vectrial.servers.programs.java import Java
from vectrial.servers.programs.maven import JarProgram

PROGRAM = JarProgram(
    "kafka",
    "3.9.1",
    Path(__file__).with_name("kafka.lock"),
    "kafka_2.13",
    java=Java(11, 25, "KAFKA_JAVA_HOME"),
)
#: Size of the heap, fixed: topics of a few clients need little.
HEAP = "384m"
_ASK_S = 2.0
#: Bytes of a message: more than a store writes at once.
_MESSAGE_BYTES = 20 << 20


def _command(
    host: str, program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    """The broker and its controller in one process; its storage is formatted before the first
    start."""
    broker, controller = (f"{host}:{ports[name]}" for name in ("broker", "controller"))
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder / "log",
        "num.partitions": 1,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "auto.create.topics.enable": "true",
        "message.max.bytes": _MESSAGE_BYTES,
        "replica.fetch.max.bytes": _MESSAGE_BYTES,
        "group.initial.rebalance.delay.ms": 0,
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    digest = hashlib.sha256(str(folder).encode()).digest()[:16]
    cluster = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    home = PROGRAM.java_home()
    java = shlex.join(
        [
            str(home / "bin" / "java"),
            *(f"-Xms{HEAP}", f"-Xmx{HEAP}", f"-Djava.io.tmpdir={folder}"),
            *("-cp", f"{program.parent}/*"),
        ]
    )
    formatted, settled = (shlex.quote(str(one)) for one in (folder / "log/meta.properties", file))
    format_once = f"kafka.tools.StorageTool format --cluster-id={cluster} -c {settled}"
    script = (
        f"test -e {formatted} || {java} {format_once} || exit 1; exec {java} kafka.Kafka {settled}"
    )
    return Command(("/bin/sh", "-c", script), needs=(home, program.parent.parent))


def _ready(address: Address) -> None:
    """Check that the server tells which requests it knows (ApiVersions, version 0)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((address.host, address.ports["broker"]), _ASK_S) as one:
            one.settimeout(_ASK_S)
            one.sendall(struct.pack(">i", len(request)) + request)
            answer = one.recv(10)
    except OSError as error:
        raise NotReady(f"{type(error).__name__}: {error}") from error
    if len(answer) < 10 or struct.unpack(">iih", answer)[1:] != (1, 0):
        raise NotReady("it does not say which requests it knows")


def kafka(host: str) -> Recipe:
    """The recipe of a broker that listens at this address."""
    return Recipe(
        name="kafka",
        program=PROGRAM.fetch,
        availability=PROGRAM.availability,
        ports=("broker", "controller"),
        public=("broker",),
        command=partial(_command, host),
        ready=_ready,
        stop_s=30.0,
    )
