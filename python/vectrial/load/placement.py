"""Where the client and the server of a store run, so that neither takes the other's time."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from vectrial.errors import UserError

Core = Annotated[int, Field(ge=0)]


class Placement(BaseModel):
    """Processors of the client and of the servers started here.

    threads: client threads of the native lane, each with connections of its own.
    client_cores: those that the client may use: a thread of the native lane is pinned to each,
        the processes of the sdk lane share them. Unless given, the last `threads` of this machine
        that `server_cores` leaves.
    server_cores: those that servers may use. Unless given, all that the client's leave.
        Where nothing would be left for one of the two, both go where the system puts them.
    dedicated: the native lane waits for arrivals in a loop that keeps its cores busy: the least
        schedule lag, for cores that nobody else needs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: int = Field(default=1, ge=1)
    client_cores: tuple[Core, ...] | None = None
    server_cores: tuple[Core, ...] | None = None
    dedicated: bool = False

    def resolved(self, available: frozenset[int] | None = None) -> Placement:
        """The same with every core named; empty tuples where the system decides.

        Args:
            available: the cores there are; unless given, those this process may use.

        Raises:
            UserError: cores that are not there, or fewer client cores than threads.
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
        """The cores that client threads are pinned to; none where the system decides."""
        return self.client_cores or ()
