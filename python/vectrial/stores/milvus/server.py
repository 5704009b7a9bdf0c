"""Milvus standalone, one process with every role in it, from a wheel on PyPI.

Version 2.3.5 is the newest that a package registry has for Linux. The wheel contains a packed
archive, which is unpacked here; the wheel's own code for that is not executed. Files are on the
local disk, the log is in rocksmq, and metadata are in an etcd within the process.

All ports but etcd's listen on every interface, whatever address is configured. So the server runs
in a network of its own.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    AccessRefused,
    Cluster,
    Clustering,
    Command,
    Image,
    Node,
    NotReady,
    Recipe,
)
from vectrial.servers.local import HOST, variable_name
from vectrial.servers.programs.base import make_once, program_override
from vectrial.servers.programs.wheels import WheelProgram
from vectrial.stores.milvus.cluster import SERVICES, node_command
from vectrial.stores.milvus.store import credentials
from vectrial.util import paths

WHEEL = WheelProgram(
    name="milvus",
    package="milvus",
    version="2.3.5",
    sha256={"x86_64": "69515a0630ce29fd10e101fa442afea8ca1387b93a456cd9bd41fdf3deb93d04"},
    file="milvus/data/bin/milvus.lzma",
    megabytes=58,
)
#: Roles of the one process that listen, each with its port, as its settings call them.
_ROLES = ("rootCoord", "queryCoord", "dataCoord", "queryNode", "indexNode", "dataNode")
IMAGE = Image(
    name="milvusdb/milvus",
    tag=f"v{WHEEL.version}",
    digest=None,
    ports={"grpc": 19530},
    data="/var/lib/milvus",
    env={
        "ETCD_USE_EMBED": "true",
        "ETCD_DATA_DIR": "/var/lib/milvus/etcd",
        "COMMON_STORAGETYPE": "local",
        "COMMON_GRACEFULSTOPTIMEOUT": "3",  # as in `_command`
    },
    argv=("milvus", "run", "standalone"),
)
SNIPPET = """\
from pymilvus import MilvusClient
client = MilvusClient("http://{host}:{grpc}")
print(client.get_server_version())"""
_ASK_S = 5.0
#: Names a program to use instead of the wheel's.
_BIN = "VECTRIAL_MILVUS_BIN"
#: `{{ proxy_port(int): 19530 }}` in the wheel's settings: a name, perhaps a type and a default.
_PLACE = re.compile(r"\{\{\s*\w+(?:\(\w+\))?\s*(?::\s*(.*?))?\s*\}\}")


def _program(progress: LineProgress) -> Path:
    """The program, with its libraries beside it and its settings in `../configs`."""
    if (own := program_override(_BIN)) is not None:
        return own
    packed = WHEEL.fetch(progress).parent

    def unpack(into: Path, _lock: int) -> None:
        progress("milvus: unpacking what the wheel holds packed (once)")
        (into / "bin").mkdir()
        for source in packed.glob("*.lzma"):
            target = into / "bin" / source.stem
            with lzma.open(source) as compressed, target.open("wb") as file:
                shutil.copyfileobj(compressed, file)
            target.chmod(0o755)
        (into / "configs").mkdir()
        template = (packed.parent / "config.yaml.template").read_text()
        settings = _PLACE.sub(lambda place: place[1] or "", template)
        (into / "configs" / "milvus.yaml").write_text(settings)

    return make_once(_unpacked_folder(), "bin/milvus", "milvus", unpack, progress)


def _availability() -> Availability:
    if program_override(_BIN) or (_unpacked_folder() / "bin" / "milvus").exists():
        return Availability(True)
    return WHEEL.availability()


def _unpacked_folder() -> Path:
    return paths.servers_dir() / f"milvus-standalone-{WHEEL.version}"


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    """The server's command. Settings come with the program; differing ones are environment
    variables, which take precedence: `etcd.data.dir` is ETCD_DATA_DIR there."""
    config = _write_config(program, folder / "config", ports)
    libraries = program.parent
    roles = {f"{role.upper()}_PORT": str(ports[role]) for role in _ROLES}
    local = {f"{role.upper()}_IP": HOST for role in (*_ROLES, "proxy")}
    env = {
        **roles,
        **local,
        "PROXY_PORT": str(ports["grpc"]),
        "PROXY_INTERNALPORT": str(ports["internal"]),
        "METRICS_PORT": str(ports["metrics"]),
        "DEPLOY_MODE": "STANDALONE",
        "MILVUSCONF": str(config),
        "ETCD_USE_EMBED": "true",
        "ETCD_ENDPOINTS": f"{HOST}:{ports['etcd']}",
        "ETCD_CONFIG_PATH": str(config / "etcd.json"),
        "ETCD_DATA_DIR": str(folder / "etcd"),
        "ETCD_LOG_PATH": "stdout",
        "ETCD_LOG_LEVEL": "warn",
        "COMMON_STORAGETYPE": "local",
        "LOCALSTORAGE_PATH": str(folder / "storage"),
        "MQ_TYPE": "rocksmq",
        "ROCKSMQ_PATH": str(folder / "rocksmq"),
        "LOG_LEVEL": "warn",
        # It waits half an hour for others to take over what it holds; there are none.
        "COMMON_GRACEFULSTOPTIMEOUT": "3",
        "LD_LIBRARY_PATH": f"{libraries}{os.pathsep}{libraries.parent / 'lib'}",
    }
    # Its lock is a file in one place for the whole machine, by this name.
    alias = f"vectrial-{ports['grpc']}"
    return Command((str(program), "run", "standalone", "--alias", alias), env)


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    alone = _command(program, folder, node.ports, cluster.secrets)
    return node_command(alone, node, cluster)


def _write_config(program: Path, config: Path, ports: Mapping[str, int]) -> Path:
    """Write the settings as JSON, which is YAML too; returns the program's settings folder."""
    config.mkdir(exist_ok=True)
    settings = program.parent.parent / "configs" / "milvus.yaml"
    if settings.exists():
        shutil.copyfile(settings, config / "milvus.yaml")
    (config / "glog.conf").write_text("--logtostderr=true\n--minloglevel=1\n")
    client, peer = (f"http://{HOST}:{ports[name]}" for name in ("etcd", "etcd_peer"))
    etcd = {
        "name": "vectrial",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"vectrial={peer}",
    }
    (config / "etcd.json").write_text(json.dumps(etcd, indent=1))
    return config


def _ready(address: Address) -> None:
    """Check the server's health and list its collections."""
    import grpc
    from pymilvus.grpc_gen import milvus_pb2, milvus_pb2_grpc

    header = credentials(address)
    metadata = [("authorization", header)] if header else []
    at = f"{address.host}:{address.ports['grpc']}"
    with _channel(grpc, at, address) as channel:
        ask = milvus_pb2_grpc.MilvusServiceStub(channel)
        try:
            health = ask.CheckHealth(
                milvus_pb2.CheckHealthRequest(), timeout=_ASK_S, metadata=metadata
            )
            if not health.isHealthy:
                raise NotReady(f"not healthy: {', '.join(health.reasons) or health.status.reason}")
            collections = ask.ShowCollections(
                milvus_pb2.ShowCollectionsRequest(), timeout=_ASK_S, metadata=metadata
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                name = variable_name(MILVUS, "token")
                raise AccessRefused(
                    f"milvus does not let us in: {error.details()}; its token is to be in {name}, "
                    f"or a user and a password in {variable_name(MILVUS, 'user')} and "
                    f"{variable_name(MILVUS, 'password')}"
                ) from error
            raise NotReady(f"{error.code().name}: {error.details()}") from error
    if collections.status.code or collections.status.error_code:
        raise NotReady(collections.status.reason)


def _channel(grpc: Any, at: str, address: Address) -> Any:
    if not address.tls:
        return grpc.insecure_channel(at)
    roots = None if address.ca is None else address.ca.read_bytes()
    return grpc.secure_channel(at, grpc.ssl_channel_credentials(roots))


MILVUS = Recipe(
    name="milvus",
    program=_program,
    availability=_availability,
    ports=("grpc", "internal", "metrics", "etcd", "etcd_peer", *_ROLES),
    public=("grpc",),
    command=_command,
    ready=_ready,
    secrets=("token", "user", "password"),
    tls=True,
    exposed=True,
    stop_s=30.0,
    cluster=Clustering(_node_command, SERVICES, roles=("coordinator, worker", "worker")),
    image=IMAGE,
    snippet=SNIPPET,
)
