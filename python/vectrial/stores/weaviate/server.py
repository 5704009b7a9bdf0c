"""Weaviate's server, built from its Go module.

The gRPC ports of version 1.35.2 listen on every interface, and no setting changes that. So the
server runs in a network of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vectrial.model.store import Address
from vectrial.servers.base import Cluster, Clustering, Command, Image, Node, NotReady, Recipe
from vectrial.servers.local import HOST
from vectrial.servers.programs.base import GoProgram
from vectrial.servers.readiness import http_ready

PROGRAM = GoProgram(
    module="github.com/weaviate/weaviate",
    package="cmd/weaviate-server",
    version="v1.35.2",
    sum="h1:D/cB4Lz8BIhE8s6cMUa4dRhlz356r1LRqDLgr5pKhPA=",
    variable="VECTRIAL_WEAVIATE_BIN",
)
#: Rows that one answer may hold. Weaviate's default, 10,000, is too low for the rows of a filter.
MAXIMUM_RESULTS = 1_000_000
#: The variable of its environment that holds the key it accepts.
_KEY = "AUTHENTICATION_APIKEY_ALLOWED_KEYS"
_SETTINGS = {
    "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
    "AUTHENTICATION_APIKEY_ENABLED": "true",
    "AUTHENTICATION_APIKEY_USERS": "vectrial",
    "DEFAULT_VECTORIZER_MODULE": "none",
    "DISABLE_TELEMETRY": "true",
    "LOG_LEVEL": "warning",
    "QUERY_MAXIMUM_RESULTS": str(MAXIMUM_RESULTS),
    # A vector is in the graph before its insert is acknowledged.
    "ASYNC_INDEXING": "false",
    "CLUSTER_HOSTNAME": "vectrial",
    "CLUSTER_ADVERTISE_ADDR": HOST,
    "GO_PROFILING_DISABLE": "true",
    "RAFT_BOOTSTRAP_EXPECT": "1",
    # Full-text indexes of the older kind. Those of the default kind (BlockMax WAND) lose rows in
    # 1.35.2: what is in memory and not in a segment yet has no bound that it could be kept by, and
    # neither have words that one row of a segment has. Nothing but text searches reads them.
    "USE_INVERTED_SEARCHABLE": "false",
}


def _node_in_container(node: Node, cluster: Cluster) -> Command:
    """A node's command in a container; the key comes from the container engine's environment."""
    keyed = replace(cluster, secrets={"api_key": ""})
    told = _node_command(Path("weaviate"), Path(IMAGE.data), node, keyed)
    env = {name: value for name, value in told.env.items() if name != _KEY}
    argv = tuple("0.0.0.0" if one == node.host else one for one in told.argv[1:])
    return replace(told, argv=argv, env=env)


IMAGE = Image(
    name="cr.weaviate.io/semitechnologies/weaviate",
    tag="1.35.2",
    digest=None,
    ports={
        "http": 8080,
        "grpc": 50051,
        "gossip": 7946,
        "data": 7947,
        "raft": 8300,
        "raft_rpc": 8301,
    },
    data="/var/lib/weaviate",
    env={**_SETTINGS, "PERSISTENCE_DATA_PATH": "/var/lib/weaviate"},
    argv=("--host", "0.0.0.0", "--port", "8080", "--scheme", "http"),
    generated={"api_key": _KEY},
    node=_node_in_container,
)
SNIPPET = """\
import weaviate
key = weaviate.auth.AuthApiKey({api_key})
client = weaviate.connect_to_local(
    "{host}", port={http}, grpc_port={grpc}, auth_credentials=key
)
print(client.get_meta()["version"])"""


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    argv = (str(program), "--host", HOST, "--port", str(ports["http"]), "--scheme", "http")
    env = {
        **_SETTINGS,
        _KEY: secrets["api_key"],
        "PERSISTENCE_DATA_PATH": str(folder),
        "GRPC_PORT": str(ports["grpc"]),
        "CLUSTER_BIND_ADDR": HOST,
        "CLUSTER_GOSSIP_BIND_PORT": str(ports["gossip"]),
        "CLUSTER_DATA_BIND_PORT": str(ports["data"]),
        "RAFT_PORT": str(ports["raft"]),
        "RAFT_INTERNAL_RPC_PORT": str(ports["raft_rpc"]),
    }
    return Command(argv, env)


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    """The command of a node. If nodes share a host, each finds another's data port beside its
    gossip port, and the call port beside the Raft port (CLUSTER_IN_LOCALHOST)."""
    nodes = cluster.nodes
    alone = _command(program, folder, node.ports, cluster.secrets)
    raft = ",".join(f"{one.name}:{one.ports['raft']}" for one in nodes)
    shared = len({one.host for one in nodes}) < len(nodes)
    argv = tuple(node.host if one == HOST else one for one in alone.argv)
    env = {
        "CLUSTER_BIND_ADDR": node.host,
        "CLUSTER_HOSTNAME": node.name,
        "CLUSTER_IN_LOCALHOST": str(shared).lower(),
        "CLUSTER_ADVERTISE_ADDR": node.host,
        "CLUSTER_ADVERTISE_PORT": str(node.ports["gossip"]),
        "RAFT_BOOTSTRAP_EXPECT": str(len(nodes)),
        "RAFT_JOIN": raft,
    }
    if node != nodes[0]:
        env["CLUSTER_JOIN"] = f"{nodes[0].host}:{nodes[0].ports['gossip']}"
    return replace(alone, argv=argv, env={**alone.env, **env})


def _ready(address: Address) -> None:
    """Check the server's readiness, its version (reported a little later), and the nodes of a
    cluster."""
    key = address.secrets.get("api_key")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    about = http_ready(WEAVIATE, address, headers, "/v1/.well-known/ready", "/v1/meta")
    if "version" not in about:
        raise NotReady("it does not tell its version")
    if address.nodes:
        nodes = http_ready(WEAVIATE, address, headers, "/v1/nodes")["nodes"]
        healthy = sum(node["status"] == "HEALTHY" for node in nodes)
        if healthy < len(address.nodes):
            raise NotReady(f"{healthy} of {len(address.nodes)} nodes are healthy")


WEAVIATE = Recipe(
    name="weaviate",
    program=PROGRAM.fetch,
    availability=PROGRAM.availability,
    ports=("http", "grpc", "gossip", "data", "raft", "raft_rpc"),
    public=("http", "grpc"),
    command=_command,
    ready=_ready,
    secrets=("api_key",),
    generated=("api_key",),
    tls=True,
    exposed=True,
    cluster=Clustering(
        _node_command, adjacent=(("gossip", "data"), ("raft", "raft_rpc")), joins="gossip"
    ),
    image=IMAGE,
    snippet=SNIPPET,
)
