"""OpenSearch's server with its k-NN plugin, from the archives that their makers publish in a Maven
registry.

The plugin's archive there has no native libraries: the `lucene` engine works, and making an index
of another one ends the node.
VECTRIAL_OPENSEARCH_HEAP is the size of the heap (1g). A distribution of one's own, with the
plugin, is named by VECTRIAL_OPENSEARCH_BIN, its `bin/opensearch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.servers.base import Cluster, Clustering, Command, Image, Node, NoProgram, Recipe
from vectrial.servers.programs.base import given
from vectrial.servers.programs.java import Java, find_java
from vectrial.servers.programs.maven import (
    Artifact,
    MavenProgram,
    maven_program,
    maven_program_at_hand,
)
from vectrial.stores.lucene import server as lucene

_SERVER = Artifact(
    "org.opensearch.distribution.integ-test-zip",
    "opensearch",
    "3.5.0",
    "b676ad392c95a94d8d2bd8785b8b922c7811536daf6a9ec0c7277a34bd8a17a9",
)
_KNN = Artifact(
    "org.opensearch.plugin",
    "opensearch-knn",
    "3.5.0.0",
    "99fdf3ac9ef95974e276298b83a58532bf21ba13bd5fd96a4b59465b7e613309",
)
PROGRAM = MavenProgram(
    "opensearch",
    "3.5.0",
    "bin/opensearch",
    ((_SERVER, ""), (_KNN, "plugins/opensearch-knn")),
)
IMAGE = Image(
    name="opensearchproject/opensearch",
    tag=PROGRAM.version,
    digest=None,
    ports={"http": 9200},
    data="/usr/share/opensearch/data",
    env={
        "discovery.type": "single-node",
        "DISABLE_SECURITY_PLUGIN": "true",
        "DISABLE_INSTALL_DEMO_CONFIG": "true",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "OPENSEARCH_JAVA_OPTS": f"-Xms{lucene.HEAP} -Xmx{lucene.HEAP}",
    },
)
SNIPPET = """\
from opensearchpy import OpenSearch
client = OpenSearch("http://{host}:{http}")
print(client.info())"""
_BIN = "VECTRIAL_OPENSEARCH_BIN"
_JAVA = Java(21, 25, "OPENSEARCH_JAVA_HOME")


def _java() -> Path:
    return find_java(_JAVA, f"opensearch {PROGRAM.version}")


def _program(progress: LineProgress) -> Path:
    if own := given(_BIN):
        return own
    _java()  # before much is fetched that could not be run
    return maven_program(PROGRAM, progress)


def _at_hand() -> Availability:
    if given(_BIN):
        return Availability(True)
    try:
        _java()
    except NoProgram as error:
        return Availability(False, str(error))
    return maven_program_at_hand(PROGRAM)


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    return _configured(program, folder, lucene.settings(folder, ports))


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    settings = lucene.node_settings(folder, node, cluster.nodes)
    return _configured(program, folder, settings, len(cluster.nodes))


def _configured(program: Path, folder: Path, settings: dict[str, str], nodes: int = 1) -> Command:
    if (program.parent.parent / "plugins" / "opensearch-security").is_dir():
        settings["plugins.security.disabled"] = "true"
    return lucene.command(
        program,
        folder,
        settings,
        name="opensearch",
        prefix="OPENSEARCH",
        java=_java,
        java_variable=_JAVA.variable,
        nodes=nodes,
    )


OPENSEARCH: Recipe = Recipe(
    tls=True,
    name="opensearch",
    program=_program,
    at_hand=_at_hand,
    ports=("http", "transport"),
    public=("http",),
    command=_command,
    ready=lambda address: lucene.ready(
        OPENSEARCH, address, identity="/_plugins/_security/authinfo"
    ),
    secrets=("user", "password"),
    stop_s=60.0,
    cluster=Clustering(_node_command),
    image=IMAGE,
    snippet=SNIPPET,
)
