"""The base of the servers of Elasticsearch and of OpenSearch, which was forked from it.

Both refuse to run as root, read their configuration from a folder that they write to as well, and
keep what they say on standard output, which is the server's log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.model.store import Address
from vectrial.servers.base import Command, Node, NotReady, Recipe
from vectrial.servers.local import HOST
from vectrial.stores.common.readiness import http_ready
from vectrial.stores.lucene.common import authorization

#: Of the heap, unless the environment says otherwise.
HEAP = "1g"
#: Of each node of a cluster; less is too little for the server itself.
NODE_HEAP = "512m"
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def heap(variable: str, nodes: int = 1) -> str:
    """A node's heap size, in Java's notation, from the environment. The default is `HEAP`, or
    `NODE_HEAP` if there are several nodes.

    Raises:
        UserError: the variable is not a size.
    """
    size = os.environ.get(variable) or (HEAP if nodes == 1 else NODE_HEAP)
    if not re.fullmatch(r"[1-9]\d*[mg]", size):
        raise UserError(f"'{size}' is no size of a heap", where=variable, remedy="as in 512m or 4g")
    return size


def configure(distribution: Path, folder: Path, settings: Mapping[str, str], name: str) -> Path:
    """Write the server's configuration below its folder, and create the folders that it needs.

    distribution: the unpacked program. Its Java options are used, but not its log of garbage
        collections, whose files would count as data. name: the settings file's name.
    """
    config = folder / "config"
    for needed in (config, folder / "data", folder / "logs", folder / "tmp"):
        needed.mkdir(exist_ok=True)
    lines = (distribution / "config" / "jvm.options").read_text().splitlines()
    options = [line for line in lines if "gc.log" not in line and "HeapDump" not in line]
    (config / "jvm.options").write_text("\n".join([*options, ""]))
    (config / "log4j2.properties").write_text(_LOGGING)
    written = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
    (config / f"{name}.yml").write_text(written)
    return config


def command(
    program: Path,
    folder: Path,
    own_settings: Mapping[str, str],
    *,
    name: str,
    prefix: str,
    java: Callable[[], Path],
    java_variable: str,
    nodes: int = 1,
) -> Command:
    """The command of a server alone, or of one node of several.

    name: name of the server and its settings file. prefix: prefix of its environment variables.
        java: finds a Java, whose path goes into `java_variable`; a distribution may bring its own.
    """
    distribution = program.parent.parent
    config = configure(distribution, folder, own_settings, name)
    size = heap(f"VECTRIAL_{name.upper()}_HEAP", nodes)
    env = {
        f"{prefix}_PATH_CONF": str(config),
        f"{prefix}_TMPDIR": str(folder / "tmp"),
        f"{prefix}_JAVA_OPTS": f"-Xms{size} -Xmx{size}",
    }
    if (distribution / "jdk").is_dir():
        return Command((str(program),), env)
    home = java()
    return Command((str(program),), {**env, java_variable: str(home)}, needs=(home,))


def settings(folder: Path, ports: Mapping[str, int]) -> dict[str, str]:
    """Settings of a single node that listens on loopback."""
    return {
        "cluster.name": "vectrial",
        "node.name": "vectrial",
        "discovery.type": "single-node",
        "network.host": HOST,
        "http.port": str(ports["http"]),
        "transport.port": str(ports["transport"]),
        "path.data": str(folder / "data"),
        "path.logs": str(folder / "logs"),
        # A nearly full disk is no reason to stop taking writes in the middle of a measurement.
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }


def node_settings(folder: Path, node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    """Settings of one node of a cluster."""
    own = settings(folder, node.ports) | {
        "node.name": node.name,
        "network.host": node.host,
        "discovery.seed_hosts": ",".join(f"{one.host}:{one.ports['transport']}" for one in nodes),
        "cluster.initial_master_nodes": ",".join(one.name for one in nodes),
    }
    del own["discovery.type"]
    return own


def ready(recipe: Recipe, address: Address, *, identity: str) -> None:
    """Check that the cluster has a master, its nodes and its shards. `_cluster/health` tells, since
    Elasticsearch's distribution in the registry does not answer at `/`.

    identity: path that tells known users who they are, for roles that may read an index but not
        query the cluster.
    """
    allowed = authorization(address)
    headers = {"authorization": allowed} if allowed else {}
    nodes = max(1, len(address.nodes))
    path = f"/_cluster/health?wait_for_status=yellow&wait_for_nodes=>={nodes}&timeout=2s"
    health = http_ready(recipe, address, headers, path, weak_role=True)
    if health is None:
        http_ready(recipe, address, headers, identity)
        return
    if (there := health["number_of_nodes"]) < nodes:
        raise NotReady(f"{there} of {nodes} nodes have joined")
    if health.get("timed_out", True):
        raise NotReady("the cluster has shards that are not there yet")
