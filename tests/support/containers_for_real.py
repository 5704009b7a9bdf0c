"""Servers in containers of a real engine: run in the engine's network, says what it saw as JSON.

python containers_for_real.py FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from vectrial.model.faults import Fault
from vectrial.model.placement import Limits
from vectrial.model.store import Address
from vectrial.servers.docker import Docker
from vectrial.servers.docker_cluster import DockerCluster
from vectrial.stores.weaviate.server import WEAVIATE

LIMIT_BYTES = 600 << 20


def engine(*arguments: str) -> str:
    """What the engine says."""
    done = subprocess.run(("docker", *arguments), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def nodes_of(address: Address) -> Any:
    """The nodes of a cluster, as one of them says."""
    url = f"http://{address.host}:{address.ports['http']}/v1/nodes"
    headers = {"authorization": f"Bearer {address.secrets['api_key']}"}
    with urllib.request.urlopen(
        urllib.request.Request(url, headers=headers), timeout=180
    ) as answer:
        return [[node["name"], node["status"]] for node in json.load(answer)["nodes"]]


def alone(folder: Path) -> dict[str, Any]:
    """A single server with a limit."""
    with Docker(WEAVIATE, folder, limits=Limits(1.0, LIMIT_BYTES)) as server:
        limits = engine(
            "inspect", "--format", "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}",
            server.container,
        )  # fmt: skip
        return {
            "facts": dict(server.facts()),
            "limits": limits,
            "nodes": nodes_of(server.address),
            "published": engine("port", server.container),
            "processes": list(server.processes()),
        }


def together(folder: Path) -> dict[str, Any]:
    """A cluster of two, one of which is lost and comes back."""
    with DockerCluster(WEAVIATE, 2, folder) as server:
        seen: dict[str, Any] = {
            "facts": dict(server.facts()),
            "nodes": [nodes_of(node) for node in server.address.nodes],
            "networks": engine("network", "ls", "--format", "{{.Name}}").splitlines(),
            "processes": list(server.processes()),
        }
        for fault in Fault:
            server.strike(1, fault)
            during = server.is_alive()
            server.mend(1, fault)
            server.wait_ready(180.0)
            seen[fault] = [during, len(server.processes())]
        return seen


def left() -> dict[str, Any]:
    """What the engine has when all have ended."""
    return {
        "containers": engine("ps", "--all", "--format", "{{.Names}}"),
        "networks": engine("network", "ls", "--format", "{{.Name}}").splitlines(),
    }


if __name__ == "__main__":
    base = Path(sys.argv[1])
    print(
        json.dumps(
            {"alone": alone(base / "one"), "together": together(base / "two"), "left": left()}
        )
    )
