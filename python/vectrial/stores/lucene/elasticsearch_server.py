"""Elasticsearch's server, from the distribution that its makers publish in a Maven registry for
integration tests: the server with vector search and a handful of modules.

VECTRIAL_ELASTICSEARCH_VERSION chooses among the versions that are known here, and
VECTRIAL_ELASTICSEARCH_HEAP the size of the heap (1g). A full distribution of one's own is named by
VECTRIAL_ELASTICSEARCH_BIN, its `bin/elasticsearch`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import UserError
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

#: Versions with the checksums of their archives; the first is the default.
VERSIONS: Mapping[str, str] = {
    "8.19.21": "215d5f3dbf0609a149f6218a9e47b6ae2df34ebbff3c5754e35f15a5e5393c8a",
    "9.2.4": "af7b81fe31627c7523b2546351cd4e47310faa6a72c8db8dc8f7a191e871cfaf",
}
IMAGE = Image(
    name="elasticsearch",
    tag=next(iter(VERSIONS)),
    digest=None,
    ports={"http": 9200},
    data="/usr/share/elasticsearch/data",
    env={
        "discovery.type": "single-node",
        "xpack.security.enabled": "false",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "ES_JAVA_OPTS": f"-Xms{lucene.HEAP} -Xmx{lucene.HEAP}",
    },
)
SNIPPET = """\
from elasticsearch import Elasticsearch
client = Elasticsearch("http://{host}:{http}")
print(client.nodes.info())"""
_BIN = "VECTRIAL_ELASTICSEARCH_BIN"
_VERSION = "VECTRIAL_ELASTICSEARCH_VERSION"
_JAVA = "ES_JAVA_HOME"


def chosen() -> MavenProgram:
    """The program of the version that the environment asks for.

    Raises:
        UserError: that version is not known here.
    """
    version = os.environ.get(_VERSION) or next(iter(VERSIONS))
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise UserError(f"'{version}' is not known here", where=_VERSION, remedy=f"one of {known}")
    group = "org.elasticsearch.distribution.integ-test-zip"
    archive = Artifact(group, "elasticsearch", version, VERSIONS[version])
    return MavenProgram("elasticsearch", version, "bin/elasticsearch", ((archive, ""),))


def _java(program: MavenProgram) -> Path:
    least = 17 if program.version.startswith("8.") else 21
    return find_java(Java(least, 25, _JAVA), f"elasticsearch {program.version}")


def _program(progress: LineProgress) -> Path:
    if own := given(_BIN):
        return own
    program = chosen()
    _java(program)  # before much is fetched that could not be run
    return maven_program(program, progress)


def _at_hand() -> Availability:
    if given(_BIN):
        return Availability(True)
    program = chosen()
    try:
        _java(program)
    except NoProgram as error:
        return Availability(False, str(error))
    return maven_program_at_hand(program)


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    return _configured(program, folder, lucene.settings(folder, ports))


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    settings = lucene.node_settings(folder, node, cluster.nodes)
    return _configured(program, folder, settings, len(cluster.nodes))


def _configured(
    program: Path, folder: Path, settings: Mapping[str, str], nodes: int = 1
) -> Command:
    return lucene.command(
        program,
        folder,
        {**settings, "xpack.security.enabled": "false"},
        name="elasticsearch",
        prefix="ES",
        java=lambda: _java(chosen()),
        java_variable=_JAVA,
        nodes=nodes,
    )


ELASTICSEARCH: Recipe = Recipe(
    tls=True,
    name="elasticsearch",
    program=_program,
    at_hand=_at_hand,
    ports=("http", "transport"),
    public=("http",),
    command=_command,
    ready=lambda address: lucene.ready(ELASTICSEARCH, address, identity="/_security/_authenticate"),
    secrets=("user", "password", "api_key"),
    stop_s=60.0,
    cluster=Clustering(_node_command),
    image=IMAGE,
    snippet=SNIPPET,
)
