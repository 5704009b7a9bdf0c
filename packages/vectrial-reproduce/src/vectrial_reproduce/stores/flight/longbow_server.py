"""Longbow's server: a program that is given, an image of the user's, or an address.

No registry has it, and its source has no open licence, so none of it is in this repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Command, NoProgram, NotReady, Recipe
from vectrial.servers.local import HOST
from vectrial.servers.programs.base import own_program
from vectrial_reproduce.stores.flight.server import readiness

#: The column whose words it indexes.
TEXT_COLUMN = "text"
_BIN = "VECTRIAL_LONGBOW_BIN"
_ADDRESS = "VECTRIAL_LONGBOW_ADDRESS"
_NOWHERE = Availability(
    False,
    "no registry has Longbow",
    f"give a program that you have built by {_BIN}, or a running server by {_ADDRESS}; on x86-64"
    " the assembly of its source does not assemble, its portable Go code does",
)
SNIPPET = """\
from pyarrow import flight
client = flight.FlightClient("grpc://{host}:{grpc}")
ask = flight.Action("check_readiness", b'{{"dataset": "any"}}')
print(list(client.do_action(ask))[0].body.to_pybytes())"""
#: The user's own settings of the server, passed on to it.
_SETTING = re.compile(r"LONGBOW_(MAX_MEMORY|HNSW_M|HNSW_EF_CONSTRUCTION|HNSW_SQ8_ENABLED|GOGC)")
#: Unless the user sets it. With 1 GiB, its own default, a put waits for ever after some twenty
#: small datasets were made and dropped: what they took is not counted back.
_MAX_MEMORY_BYTES = 4 << 30
#: The key under which Go records the source in a program.
_REVISION = re.compile(rb"vcs\.revision=([0-9a-f]{7,40})")
_MODIFIED = b"vcs.modified=true"


def _program(progress: LineProgress) -> Path:
    if (program := own_program(_BIN, "longbow")) is None:
        raise NoProgram(_NOWHERE.text)
    return program


def _availability() -> Availability:
    return Availability(True) if own_program(_BIN, "longbow") else _NOWHERE


def revision() -> str:
    """The commit from which this machine's program was built, as Go records it in the program. ""
    if there is no program, no record, or another server is addressed."""
    program = own_program(_BIN, "longbow")
    if program is None or os.environ.get(_ADDRESS):
        return ""
    with program.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        if (commit := _REVISION.search(data)) is None:
            return ""
        return commit[1][:7].decode() + (", changed" if data.find(_MODIFIED) >= 0 else "")


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    env = {
        "LONGBOW_MAX_MEMORY": str(_MAX_MEMORY_BYTES),
        **{name: value for name, value in os.environ.items() if _SETTING.fullmatch(name)},
        "LONGBOW_LISTEN_ADDR": f"{HOST}:{ports['grpc']}",
        "LONGBOW_META_ADDR": f"{HOST}:{ports['meta']}",
        "LONGBOW_METRICS_ADDR": f"{HOST}:{ports['metrics']}",
        "LONGBOW_GOSSIP_ENABLED": "false",
        "LONGBOW_DATA_PATH": str(folder),
        "LONGBOW_HYBRID_SEARCH_ENABLED": "true",
        "LONGBOW_HYBRID_TEXT_COLUMNS": TEXT_COLUMN,
        "LONGBOW_LOG_LEVEL": "warn",
    }
    return Command((str(program),), env)


def _ready(address: Address) -> None:
    answer = readiness(LONGBOW, address)
    if b"NOT_FOUND" not in answer:
        raise NotReady(f"check_readiness for a dataset that does not exist says {answer!r}")


LONGBOW = Recipe(
    name="longbow",
    program=_program,
    availability=_availability,
    ports=("grpc", "meta", "metrics"),
    public=("grpc",),
    command=_command,
    ready=_ready,
    stop_s=60.0,  # with rows that are not indexed yet it takes longer than half a minute
    snippet=SNIPPET,
)
