"""Loads that machines of a Ray cluster send together: begun at one instant, by their clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vectrial.engine.parts import Order, Part, Sent
from vectrial.model.client_limits import Ceiling
from vectrial.model.errors import StoreError
from vectrial.model.placement import Placement
from vectrial.run.on_ray.clocks import Offset, offset_of

#: From the naming of an instant to it: the machines are told of it meanwhile.
_LEAD_NS = 100_000_000
#: How long machines may take to connect and warm up, beside what an order says; and to answer.
_READY_S, _ANSWER_S = 60.0, 60.0
_POLL_S = 0.01


@dataclass(frozen=True)
class ClientMachine:
    """A machine that sends: its name and actor."""

    name: str
    actor: Any


class RayClients:
    """Machines of a Ray cluster that send the loads of a job together; see `ClientMachines`.

    Args:
        machines: at least one. address: at which they reach this machine, where the store is.
    """

    def __init__(self, machines: Sequence[ClientMachine], address: str) -> None:
        self._machines, self.address = tuple(machines), address

    def ceiling(
        self,
        protocol: str,
        dim: int,
        k: int,
        in_flight: int,
        placement: Placement,
        dialect: Mapping[str, str],
    ) -> Ceiling:
        """As of `ClientMachines`."""
        found = self._each(
            lambda machine: machine.actor.ceiling.remote(
                protocol, dim, k, in_flight, placement, dict(dialect)
            ),
            _READY_S,
        )
        lost = [why for why in found.values() if isinstance(why, str)]
        if lost:
            raise StoreError(lost[0])
        rates = [ceiling.qps for ceiling in found.values()]
        cpu_us = sum(ceiling.cpu_us * ceiling.qps for ceiling in found.values()) / sum(rates)
        return Ceiling(in_flight, sum(rates), cpu_us)

    def drive(self, order: Order) -> Sent:
        """As of `ClientMachines`."""
        import ray

        shared = ray.put(order)
        number = len(self._machines)
        starting = iter(range(number))
        self._all(
            self._each(
                lambda machine: machine.actor.load_connect.remote(shared, next(starting), number),
                _ANSWER_S,
            )
        )
        self._wait_ready(order.longest_s + _READY_S)
        offsets = self._offsets()
        at_ns = time.perf_counter_ns() + _LEAD_NS
        begun = self._each(
            lambda machine: machine.actor.load_begin.remote(at_ns - offsets[machine.name].ns),
            _ANSWER_S,
        )
        ended = self._each(
            lambda machine: machine.actor.load_end.remote(), order.longest_s + _ANSWER_S
        )
        lost = {**begun, **ended}
        parts: dict[str, Part] = {}
        error_ns = 0.0
        for name, answer in ended.items():
            if isinstance(answer, str):
                continue
            parts[name], late_ns = answer
            error_ns = max(error_ns, late_ns + offsets[name].error_ns)
        if not parts:
            raise StoreError("; ".join(str(why) for why in lost.values()))
        whys = tuple(f"{why}: its requests are missing" for why in ended.values()
                     if isinstance(why, str))  # fmt: skip
        return Sent(parts, at_ns, error_ns / 1e3, whys)

    def _wait_ready(self, longest_s: float) -> None:
        ends = time.monotonic() + longest_s
        waiting = list(self._machines)
        while waiting:
            ready = self._all(
                self._each(lambda machine: machine.actor.load_is_ready.remote(), _ANSWER_S, waiting)
            )
            waiting = [machine for machine in waiting if not ready[machine.name]]
            if waiting and time.monotonic() > ends:
                raise StoreError(f"{waiting[0].name} did not connect within {longest_s:.0f} s")
            time.sleep(_POLL_S)

    def _offsets(self) -> dict[str, Offset]:
        import ray

        try:
            return {machine.name: offset_of(machine.actor) for machine in self._machines}
        except ray.exceptions.RayError as error:
            raise StoreError(f"a client machine is lost: {type(error).__name__}") from error

    def _each(
        self,
        ask: Callable[[ClientMachine], Any],
        timeout_s: float,
        machines: Sequence[ClientMachine] = (),
    ) -> dict[str, Any]:
        """The answers of machines by name; a text of those that are lost or failed."""
        import ray

        asked = {machine.name: ask(machine) for machine in machines or self._machines}

        def answer(name: str) -> Any:
            try:
                return ray.get(asked[name], timeout=timeout_s)
            except ray.exceptions.RayActorError:
                return f"{name} was lost while it sent"
            except ray.exceptions.RayTaskError as error:
                return f"{name}: {error.cause or error}"
            except ray.exceptions.GetTimeoutError:
                return f"{name} did not answer within {timeout_s:.0f} s"

        with ThreadPoolExecutor(len(asked)) as pool:
            return dict(zip(asked, pool.map(answer, asked), strict=True))

    def _all(self, answers: dict[str, Any]) -> dict[str, Any]:
        """The answers; raises `StoreError` if a machine has none."""
        for answer in answers.values():
            if isinstance(answer, str):
                raise StoreError(answer)
        return answers
