"""The servers of Elasticsearch and of OpenSearch, a fork of it. Both come from the distributions
for integration tests that their makers publish in a Maven registry.

Elasticsearch's has vector search and a handful of modules. OpenSearch's plugin for vector search
has no native libraries there: the `lucene` engine works, but making an index of another engine ends
the node.

Both refuse to run as root, read their configuration from a folder to which they also write, and log
to standard output.

VECTRIAL_ELASTICSEARCH_VERSION chooses among the versions that are known here, and
VECTRIAL_ELASTICSEARCH_HEAP (VECTRIAL_OPENSEARCH_HEAP) the size of the heap (1g). A full
distribution of one's own is named by VECTRIAL_ELASTICSEARCH_BIN (VECTRIAL_OPENSEARCH_BIN, with the
plugin), its `bin/elasticsearch` (`bin/opensearch`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import UserError
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    Cluster,
    Clustering,
    Command,
    Image,
    Node,
    NotReady,
    Recipe,
)
from vectrial.servers.local import HOST
from vectrial.servers.programs.base import program_override
from vectrial.servers.programs.java import Java
from vectrial.servers.programs.maven import Artifact, MavenProgram
from vectrial.servers.readiness import http_ready
from vectrial.stores.lucene.common import authorization

#: Size of the heap, unless the environment says otherwise.
HEAP = "1g"
#: Size of the heap of each node of a cluster; less is too little for the server itself.
NODE_HEAP = "512m"
#: Versions of Elasticsearch with the checksums of their archives; the first is the default.
VERSIONS: Mapping[str, str] = {
    "8.19.21": "215d5f3dbf0609a149f6218a9e47b6ae2df34ebbff3c5754e35f15a5e5393c8a",
    "9.2.4": "af7b81fe31627c7523b2546351cd4e47310faa6a72c8db8dc8f7a191e871cfaf",
}
_VERSION = "VECTRIAL_ELASTICSEARCH_VERSION"
_OPENSEARCH = MavenProgram(
    "opensearch",
    "3.5.0",
    "bin/opensearch",
    (
        (
            Artifact(
                "org.opensearch.distribution.integ-test-zip",
                "opensearch",
                "3.5.0",
                "b676ad392c95a94d8d2bd8785b8b922c7811536daf6a9ec0c7277a34bd8a17a9",
            ),
            "",
        ),
        (
            Artifact(
                "org.opensearch.plugin",
                "opensearch-knn",
                "3.5.0.0",
                "99fdf3ac9ef95974e276298b83a58532bf21ba13bd5fd96a4b59465b7e613309",
            ),
            "plugins/opensearch-knn",
        ),
    ),
    java=Java(21, 25, "OPENSEARCH_JAVA_HOME"),
)
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def chosen_program() -> MavenProgram:
    """Elasticsearch's program, of the version that the environment asks for.

    Raises:
        UserError: that version is not known here.
    """
    version = os.environ.get(_VERSION) or next(iter(VERSIONS))
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise UserError(f"'{version}' is not known here", where=_VERSION, remedy=f"one of {known}")
    group = "org.elasticsearch.distribution.integ-test-zip"
    archive = Artifact(group, "elasticsearch", version, VERSIONS[version])
    java = Java(17 if version.startswith("8.") else 21, 25, "ES_JAVA_HOME")
    return MavenProgram("elasticsearch", version, "bin/elasticsearch", ((archive, ""),), java=java)


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


@dataclass(frozen=True)
class LuceneServer:
    """The program and the settings of one of the two servers.

    name: name of the server and of its settings file. prefix: prefix of its environment variables.
    choose_program: returns the program of the version asked for. no_security: the setting that
    turns security off. plugin: the plugin with this setting; empty: the server itself has it.
    """

    name: str
    prefix: str
    choose_program: Callable[[], MavenProgram]
    no_security: tuple[str, str]
    plugin: str = ""

    def program(self, progress: LineProgress) -> Path:
        """See `Recipe.program`."""
        return self._own_program() or self.choose_program().fetch(progress)

    def availability(self) -> Availability:
        """See `Recipe.availability`."""
        return Availability(True) if self._own_program() else self.choose_program().availability()

    def _own_program(self) -> Path | None:
        return program_override(f"VECTRIAL_{self.name.upper()}_BIN")

    def command(
        self, program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
    ) -> Command:
        """See `Recipe.command`."""
        return self._configured_command(program, folder, settings(folder, ports))

    def node_command(self, program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
        """See `Clustering.command`."""
        own = node_settings(folder, node, cluster.nodes)
        return self._configured_command(program, folder, own, len(cluster.nodes))

    def _configured_command(
        self, program: Path, folder: Path, own: dict[str, str], nodes: int = 1
    ) -> Command:
        distribution = program.parent.parent
        if not self.plugin or (distribution / "plugins" / self.plugin).is_dir():
            own.update([self.no_security])
        config = configure(distribution, folder, own, self.name)
        size = heap(f"VECTRIAL_{self.name.upper()}_HEAP", nodes)
        env = {
            f"{self.prefix}_PATH_CONF": str(config),
            f"{self.prefix}_TMPDIR": str(folder / "tmp"),
            f"{self.prefix}_JAVA_OPTS": f"-Xms{size} -Xmx{size}",
        }
        if (distribution / "jdk").is_dir():
            return Command((str(program),), env)
        home = self.choose_program().java_home()
        java = {f"{self.prefix}_JAVA_HOME": str(home)}
        return Command((str(program),), env | java, needs=(home,))


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


def _recipe(
    server: LuceneServer,
    ready: Callable[[Address], None],
    secrets: tuple[str, ...],
    image: Image,
    snippet: str,
) -> Recipe:
    return Recipe(
        tls=True,
        name=server.name,
        program=server.program,
        availability=server.availability,
        ports=("http", "transport"),
        public=("http",),
        command=server.command,
        ready=ready,
        secrets=secrets,
        stop_s=60.0,
        cluster=Clustering(server.node_command),
        image=image,
        snippet=snippet,
    )


ELASTICSEARCH: Recipe = _recipe(
    LuceneServer("elasticsearch", "ES", chosen_program, ("xpack.security.enabled", "false")),
    lambda address: ready(ELASTICSEARCH, address, identity="/_security/_authenticate"),
    ("user", "password", "api_key"),
    Image(
        name="elasticsearch",
        tag=next(iter(VERSIONS)),
        digest=None,
        ports={"http": 9200},
        data="/usr/share/elasticsearch/data",
        env={
            "discovery.type": "single-node",
            "xpack.security.enabled": "false",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "ES_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP}",
        },
    ),
    """\
from elasticsearch import Elasticsearch
client = Elasticsearch("http://{host}:{http}")
print(client.nodes.info())""",
)
OPENSEARCH: Recipe = _recipe(
    LuceneServer(
        "opensearch",
        "OPENSEARCH",
        lambda: _OPENSEARCH,
        ("plugins.security.disabled", "true"),
        plugin="opensearch-security",
    ),
    lambda address: ready(OPENSEARCH, address, identity="/_plugins/_security/authinfo"),
    ("user", "password"),
    Image(
        name="opensearchproject/opensearch",
        tag=_OPENSEARCH.version,
        digest=None,
        ports={"http": 9200},
        data="/usr/share/opensearch/data",
        env={
            "discovery.type": "single-node",
            "DISABLE_SECURITY_PLUGIN": "true",
            "DISABLE_INSTALL_DEMO_CONFIG": "true",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "OPENSEARCH_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP}",
        },
    ),
    """\
from opensearchpy import OpenSearch
client = OpenSearch("http://{host}:{http}")
print(client.info())""",
)
