"""The placement of the client and the server of a store: their processors and limits, so that
neither takes the other's time."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from vectrial.model.errors import UserError
from vectrial.model.inputs import ExactModel

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
#: A pebibyte.
_MOST_BYTES = 2**50
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")

Core = Annotated[int, Field(ge=0)]
#: More nodes than these are a typing error on one machine.
MOST_NODES = 64


class Provider(StrEnum):
    """Source of a server."""

    EXTERNAL = "external"  # it runs already, at the address that the environment gives
    LOCAL = "local"  # a program of this machine
    DOCKER = "docker"  # the official image


@dataclass(frozen=True)
class Limits:
    """Limits of a process. cpus: in processors, 1.5 for one and a half. None: unlimited."""

    cpus: float | None = None
    memory_bytes: int | None = None

    def __bool__(self) -> bool:
        return self.cpus is not None or self.memory_bytes is not None

    def __str__(self) -> str:
        parts = [] if self.cpus is None else [f"{self.cpus:g} processors"]
        if self.memory_bytes is not None:
            parts.append(f"{self.memory_bytes / 2**20:,.0f} MiB")
        return ", ".join(parts) or "none"


class Placement(ExactModel):
    """Processors of the client and of the servers started here.

    threads: client threads of the native lane, each with connections of its own.
    client_cores: cores that the client may use: a thread of the native lane is pinned to each, the
        processes of the sdk lane share them. The default is the last `threads` cores that
        `server_cores` leaves free.
    server_cores: cores that servers may use. The default is all cores that the client leaves free.
        If no core is left for one of the two, the system places both.
    server_cpus: processor time of a server started here, in processors; all unless given.
    server_memory: memory of such a server, with its unit ("2GiB", "500MB"); all unless given.
    data_disk: size of a file system on which the data of each store lie alone ("2GiB"), so that its
        power can be cut and it can be filled: an ext4 on a loop device, which needs root. Unless
        given, data lie beside the results.
    client_machines: machines of a cluster that send the searches of the native lane together; 0:
        the machine that has the store's server.
    dedicated: the native lane waits for arrivals in a loop that keeps its cores busy: the least
        schedule lag, for cores that nobody else needs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    threads: int = Field(default=1, ge=1, le=1024)
    client_cores: tuple[Core, ...] | None = None
    server_cores: tuple[Core, ...] | None = None
    server_cpus: float | None = Field(default=None, gt=0, le=100_000)
    server_memory: str | None = None
    data_disk: str | None = None
    client_machines: int = Field(default=0, ge=0, le=1000)
    dedicated: bool = False

    @field_validator("server_memory", "data_disk")
    @classmethod
    def _check_size(cls, size: str | None) -> str | None:
        if size is not None:
            size_bytes(size)
        return size

    def facts(self) -> dict[str, Any]:
        """The settings as plain data, for the identity of trials; client machines and disk only if
        there are any."""
        left_out = set() if self.client_machines else {"client_machines"}
        left_out |= set() if self.data_disk else {"data_disk"}
        return self.model_dump(mode="json", exclude=left_out)

    @property
    def limits(self) -> Limits:
        """Limits of servers that are started here."""
        memory = None if self.server_memory is None else size_bytes(self.server_memory)
        return Limits(self.server_cpus, memory)

    def resolved(self, available: frozenset[int] | None = None) -> Placement:
        """The same placement with every core named; empty tuples where the system decides.

        Args:
            available: the cores there are; unless given, the cores that this process may use.

        Raises:
            UserError: cores that do not exist, or fewer client cores than threads.
        """
        if available is None:
            available = frozenset(os.sched_getaffinity(0))
        here = sorted(available)
        for name, cores in (("client", self.client_cores), ("server", self.server_cores)):
            absent = sorted(set(cores or ()) - available)
            if absent:
                raise UserError(
                    f"{name}_cores names core {absent[0]}, which this process cannot use",
                    where="placement",
                    remedy=f"it can use {', '.join(map(str, here))}",
                )
        client, server = self.client_cores, self.server_cores
        if client and len(client) < self.threads:
            raise UserError(
                f"{self.threads} threads need as many client_cores, not {len(client)}",
                where="placement",
            )
        if client is None:
            left = [core for core in here if core not in (server or ())]
            # One core at least stays for the server, or for the system where it has its own.
            spare = 0 if server else 1
            client = tuple(left[-self.threads :]) if len(left) >= self.threads + spare else ()
        if server is None:
            server = tuple(core for core in here if core not in client) if client else ()
        return self.model_copy(update={"client_cores": client, "server_cores": server})

    @property
    def pins(self) -> tuple[int, ...]:
        """The cores that client threads are pinned to; empty where the system decides."""
        return self.client_cores or ()


def size_bytes(size: str) -> int:
    """Number of bytes in a size with its unit; ValueError if it is no size."""
    found = _SIZE.fullmatch(size.strip())
    if found is None or found[2] not in _UNITS or not float(found[1]):
        raise ValueError(f"not a size with its unit ({', '.join(_UNITS)}), as in 2GiB")
    size_in_bytes = float(found[1]) * _UNITS[found[2]]
    if size_in_bytes > _MOST_BYTES:
        raise ValueError("more memory than any machine has")
    return int(size_in_bytes)


class LimitShare(StrEnum):
    """Scope of the server limits in the suite's placement."""

    TOTAL = "total"  # all nodes together: n nodes have an nth each of what one node has
    EACH = "each"  # every node: n nodes have n times what one node has


class Hosts(ExactModel):
    """Hosts on one machine: one for each node of a cluster, or one for a single server that can
    form a cluster.

    limits: whether the placement's server limits apply to all nodes together or to each.
    link_mbit: rate of each host's link in both directions, in 10^6 bits per second; unlimited
        unless given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    limits: LimitShare = LimitShare.TOTAL
    link_mbit: float | None = Field(default=None, ge=0.1, le=1_000_000)


def limits_of_node(total: Limits, nodes: int, share: LimitShare = LimitShare.TOTAL) -> Limits:
    """Limits of one node of a cluster of this many nodes, derived from the suite's limits."""
    if share is LimitShare.EACH:
        return total
    cpus = None if total.cpus is None else total.cpus / nodes
    memory = None if total.memory_bytes is None else total.memory_bytes // nodes
    return Limits(cpus, memory)


@dataclass(frozen=True)
class Ceiling:
    """Greatest rate of the client at a number of requests in flight: requests per second, and the
    client's processor time per request in microseconds."""

    in_flight: int
    qps: float
    cpu_us: float


class ClientLimits(ExactModel):
    """Limits beyond which a row says more about the client than about the store: it is
    `client-bound`.

    docs/method.md says why the defaults are what they are.

    cpu_share: processor time of the client's threads over the time they had.
    ceiling_share: requests a second over the ceiling.
    lag_us, lag_share: p99 of the schedule lag, in microseconds and over p99 of the latency; an open
        loop is client-bound if it exceeds both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cpu_share: float = Field(default=0.8, gt=0)
    ceiling_share: float = Field(default=0.8, gt=0)
    lag_us: float = Field(default=200.0, gt=0)
    lag_share: float = Field(default=0.1, gt=0)


@dataclass(frozen=True)
class Certificate:
    """Limits of a trial's client. ceilings: by requests in flight; see `in_flight_for`. lacking:
    reason for missing ceilings. disproved: `ceilings` that a phase exceeded: the client can do more
    than when they were measured, so no phase is held to them."""

    limits: ClientLimits
    placement: Placement
    ceilings: Mapping[int, Ceiling]
    lacking: str = ""
    disproved: set[int] = field(default_factory=set)
