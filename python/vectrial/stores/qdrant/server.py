"""Qdrant's server: the program of this name on the PATH, or the official image.

No package registry has it: the crate of this name on crates.io is an empty placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Command, Image, NoProgram, NotReady, Recipe
from vectrial.servers.local import HOST
from vectrial.servers.programs.base import own_program
from vectrial.servers.readiness import http_ready

#: The variable of its environment that holds the key it accepts.
_KEY = "QDRANT__SERVICE__API_KEY"
_SETTINGS = {"QDRANT__TELEMETRY_DISABLED": "true", "QDRANT__LOG_LEVEL": "WARN"}
IMAGE = Image(
    name="qdrant/qdrant",
    tag="v1.20.0",
    digest=None,
    ports={"http": 6333, "grpc": 6334},
    data="/qdrant/storage",
    env=_SETTINGS,
    generated={"api_key": _KEY},
)
SNIPPET = """\
from qdrant_client import QdrantClient
client = QdrantClient(
    host="{host}", port={http}, grpc_port={grpc}, api_key={api_key}, https=False
)
print(client.info().version)"""
_BIN = "VECTRIAL_QDRANT_BIN"
_NOWHERE = Availability(
    False,
    "there is no program 'qdrant' on the PATH, and no package registry has it",
    f"give one by {_BIN}, a running server by VECTRIAL_QDRANT_ADDRESS, or have a container engine;"
    " the store qdrant-edge runs the same engine in process",
)


def _program(progress: LineProgress) -> Path:
    if (program := own_program(_BIN, "qdrant")) is None:
        raise NoProgram(_NOWHERE.text)
    return program


def _availability() -> Availability:
    return Availability(True) if own_program(_BIN, "qdrant") else _NOWHERE


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    env = {
        **_SETTINGS,
        _KEY: secrets["api_key"],
        "QDRANT__SERVICE__HOST": HOST,
        "QDRANT__SERVICE__HTTP_PORT": str(ports["http"]),
        "QDRANT__SERVICE__GRPC_PORT": str(ports["grpc"]),
        "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
    }
    return Command((str(program),), env)


def _ready(address: Address) -> None:
    """Check the server's own readiness, its collections (which need the key), and its version."""
    key = address.secrets.get("api_key")
    headers = {"api-key": key} if key else {}
    about = http_ready(QDRANT, address, headers, "/readyz", "/collections", "/")
    if "version" not in about:
        raise NotReady("it does not tell its version")


QDRANT = Recipe(
    name="qdrant",
    program=_program,
    availability=_availability,
    ports=("http", "grpc"),
    public=("http", "grpc"),
    command=_command,
    ready=_ready,
    secrets=("api_key",),
    generated=("api_key",),
    tls=True,
    image=IMAGE,
    snippet=SNIPPET,
)
