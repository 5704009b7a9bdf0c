"""The reference server of Longbow's protocol over Arrow Flight, in a process of its own, or one
that runs somewhere already."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Command, NoProgram, NotReady, Recipe
from vectrial.servers.local import HOST, refused_error

SNIPPET = """\
from pyarrow import flight
client = flight.FlightClient("grpc://{host}:{grpc}")
print(list(client.do_action("server-info"))[0].body.to_pybytes())"""
_ASK_S = 5.0
#: Libraries behind the reference server.
_NEEDS = ("hnswlib", "faiss", "tantivy")


def _missing() -> str:
    lacking = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if not lacking:
        return ""
    return (
        f"the reference server needs {', '.join(lacking)}: pip install 'vectrial-reproduce[flight]'"
    )


def _program(progress: LineProgress) -> Path:
    if missing := _missing():
        raise NoProgram(missing)
    return Path(sys.executable)


def _availability() -> Availability:
    missing = _missing()
    return Availability(not missing, missing)


def _command(
    program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> Command:
    module = ("-P", "-m", "vectrial_reproduce.stores.flight.reference.server")
    where = ("--host", HOST, "--port", str(ports["grpc"]), "--folder", str(folder))
    # Its home is another than ours, where some of Python's libraries may be. The current folder,
    # which `python -m` puts among them, is none.
    path = [one for one in sys.path if Path(one).is_dir() and Path(one).resolve() != Path.cwd()]
    needs = (program, Path(sys.prefix), Path(sys.base_prefix), *map(Path, path))
    env = {"PYTHONPATH": os.pathsep.join(path)}
    return Command((str(program), *module, *where), env, needs=needs)


def readiness(recipe: Recipe, address: Address) -> bytes:
    """The server's answer to `check_readiness` for a dataset that does not exist.

    Raises:
        NotReady: the server does not answer yet.
        Refused: it does not accept the token.
    """
    import pyarrow as pa
    from pyarrow import flight

    from vectrial_reproduce.stores.flight.store import call_options, connect

    with connect(address) as client:
        try:
            action = flight.Action("check_readiness", b'{"dataset": "vectrial"}')
            return next(client.do_action(action, call_options(address, _ASK_S))).body.to_pybytes()
        except StopIteration:
            raise NotReady("check_readiness has no answer") from None
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise refused_error(recipe, address, error) from error
        except (pa.ArrowException, OSError) as error:
            raise NotReady(f"{type(error).__name__}: {error}") from error


def _ready(address: Address) -> None:
    readiness(FLIGHT, address)


FLIGHT = Recipe(
    name="flight",
    program=_program,
    availability=_availability,
    ports=("grpc",),
    public=("grpc",),
    command=_command,
    ready=_ready,
    secrets=("token",),
    snippet=SNIPPET,
)
