"""A Ray cluster: connecting to it, its machines, and whether they are fit."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.model.errors import UserError
from vectrial.run.place import no_place
from vectrial_ray.load import Peer
from vectrial_ray.machine import Machine, MachineFacts, MachineKind

#: What `--on` begins with.
SCHEME = "ray"
EXTRA = "pip install 'vectrial-ray[ray]'"
START = "`ray start --head --node-ip-address ADDRESS` on one machine, then what it prints on others"
_CONNECT_S, _ANSWER_S = 5.0, 120.0
#: Variables that every machine gets, of all variants.
_PASSED = re.compile(r"VECTRIAL_\w+?_(ADDRESS|PROVIDER|PACKAGES)(__\w+)?")


def address_of(on: str) -> str:
    """The address of a cluster in `ray` or `ray://HOST:PORT`; "auto" if it names none.

    Raises:
        UserError: the text has neither form.
    """
    scheme, _, address = on.partition("://")
    if scheme != SCHEME or (address and not _is_address(address)):
        raise no_place(on)
    return address or os.environ.get("RAY_ADDRESS", "auto")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 2**16


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to the cluster at an address ("auto": the cluster of this machine).

    Raises:
        UserError: Ray is not installed, nothing answers there, or its version differs.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError("Ray is not installed here", where="--on", remedy=EXTRA) from error
    if address != "auto":
        _require_listener(address)
    # Ray prints messages about nodes on stdout, which belongs to the results.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                namespace="vectrial",
                runtime_env={"env_vars": _passed_on()},
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"no Ray cluster can be used: {first}", where="--on", remedy=START
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def _passed_on() -> dict[str, str]:
    """Environment variables for every machine: those of servers that run elsewhere, which every
    machine must reach, and those of packages, which every machine installs for itself."""
    return {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}


def _require_listener(address: str) -> None:
    """Raise unless something listens at the address; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        raise UserError(
            f"nothing answers at {address}: {error.strerror or error}", where="--on", remedy=START
        ) from error


@dataclass(frozen=True)
class Joined(Peer):
    """A machine of the cluster, with the facts about it."""

    about: MachineFacts


def join() -> tuple[Joined, ...]:
    """An actor on every machine of the cluster that has processors, using all of them. To keep a
    head node from measuring, start it with `--num-cpus 0`. Lost machines are left out.

    Raises:
        UserError: there is no machine, one is in use, or their versions differ.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    nodes.sort(key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))
    if not nodes:
        raise UserError("the Ray cluster has no machine with processors", remedy=START)
    actors = [
        ray.remote(Machine)
        .options(
            num_cpus=node["Resources"]["CPU"],
            max_concurrency=16,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        )
        .remote()
        for node in nodes
    ]
    joined: list[Joined] = []
    for node, actor in zip(nodes, actors, strict=True):
        name, address = f"machine-{len(joined) + 1}", str(node["NodeManagerAddress"])
        try:
            about = ray.get(actor.about.remote(), timeout=_ANSWER_S)
        except ray.exceptions.RayError as error:
            # Ray notices seconds later that a machine is gone: before that the actor dies, and
            # after it the actor has nowhere to be.
            if isinstance(error, ray.exceptions.RayActorError) or _is_gone(node["NodeID"]):
                continue
            leave(actors)
            raise UserError(
                f"{name} ({address}) cannot be used: {_first_line(error)}",
                where="--on",
                remedy="Vectrial and vectrial-ray must be installed there as here, and no other"
                " work of Ray's may have its processors",
            ) from error
        joined.append(Joined(name, address, actor, about))
    try:
        if not joined:
            raise UserError("no machine of the Ray cluster answers", remedy=START)
        check_versions(joined)
    except UserError:
        leave(actors)
        raise
    return tuple(joined)


def _is_gone(node_id: str) -> bool:
    import ray

    return not any(node["Alive"] for node in ray.nodes() if node["NodeID"] == node_id)


def leave(actors: Sequence[Any]) -> None:
    """End actors, and everything that they have started."""
    import ray

    for actor in actors:
        ray.kill(actor)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def check_versions(machines: Sequence[Joined]) -> None:
    """Raise `UserError` if machines differ in versions that must be equal."""
    for what in machines[0].about.versions:
        there = {machine.name: machine.about.versions[what] for machine in machines}
        if len(set(there.values())) > 1:
            each = ", ".join(f"{name} {version}" for name, version in there.items())
            raise UserError(
                f"the machines have unlike versions of {what}: {each}",
                where="--on",
                remedy="install the same everywhere",
            )


def of_one_kind(
    machines: Sequence[Joined], wanted: MachineKind | None = None
) -> tuple[Joined, ...]:
    """The machines of the kind `wanted`, or by default of the most common kind.

    Raises:
        UserError: no machine is of kind `wanted`.
    """
    if wanted is None:
        kinds = Counter(machine.about.kind for machine in machines)
        wanted = max(kinds, key=lambda kind: (kinds[kind], kind))
    alike = tuple(machine for machine in machines if machine.about.kind == wanted)
    if not alike:
        there = " and ".join(sorted({str(machine.about.kind) for machine in machines}))
        raise UserError(
            f"the run began on machines of {wanted}; the cluster has {there}",
            where="--on",
            remedy="go on with machines of that kind, or begin a new run",
        )
    return alike
