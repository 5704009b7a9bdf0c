"""Loads that machines of a Ray cluster send together: begun at one instant, by their clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vectrial.engine.parts import Order, Sent
from vectrial.model.errors import StoreError
from vectrial.model.placement import Ceiling, Placement
from vectrial.workload.ceiling import Searches
from vectrial_ray.clocks import Offset, offset_of

#: From the naming of an instant to it: the machines are told of it meanwhile.
_LEAD_NS = 100_000_000
#: How long machines may take to connect and warm up, beside what an order says; and to answer.
_READY_S, _ANSWER_S = 60.0, 60.0
_POLL_S = 0.01


@dataclass(frozen=True)
class Peer:
    """A machine of the cluster: its name, its address, and its `Machine` actor."""

    name: str
    address: str
    actor: Any


class Lost(str):
    """The reason why a machine has no answer."""


class RayClients:
    """Machines of a Ray cluster that together send the loads of a job; see `ClientMachines`.

    Args:
        machines: one or more. address: where they reach this machine, which has the store.
    """

    def __init__(self, machines: Sequence[Peer], address: str) -> None:
        self._machines, self.address = tuple(machines), address

    def ceiling(self, searches: Searches, placement: Placement) -> Ceiling:
        """See `ClientMachines.ceiling`."""
        ceilings = self._all(lambda actor, _: actor.ceiling.remote(searches, placement), _READY_S)
        qps = sum(ceiling.qps for ceiling in ceilings.values())
        cpu_us = sum(ceiling.cpu_us * ceiling.qps for ceiling in ceilings.values()) / qps
        return Ceiling(searches.in_flight, qps, cpu_us)

    def drive(self, order: Order) -> Sent:
        """See `ClientMachines.drive`."""
        self._connect(order)
        offsets = self._offsets()
        at_ns = time.perf_counter_ns() + _LEAD_NS
        begins_ns = {name: at_ns - offset.ns for name, offset in offsets.items()}
        begun = self._each(lambda actor, name: actor.load_begin.remote(begins_ns[name]), _ANSWER_S)
        ended = self._each(lambda actor, _: actor.load_end.remote(), order.longest_s + _ANSWER_S)
        parts = {name: answer for name, answer in ended.items() if not isinstance(answer, Lost)}
        if not parts:
            raise StoreError("; ".join(str(begun[name] or ended[name]) for name in ended))
        error_ns = max(late_ns + offsets[name].error_ns for name, (_, late_ns) in parts.items())
        return Sent(
            {name: part for name, (part, _) in parts.items()},
            at_ns,
            error_ns / 1e3,
            tuple(
                f"{answer}: its requests are missing"
                for answer in ended.values()
                if isinstance(answer, Lost)
            ),
        )

    def _connect(self, order: Order) -> None:
        """Have every machine connect and warm up."""
        import ray

        shared = ray.put(order)
        number = {machine.name: at for at, machine in enumerate(self._machines)}
        self._all(
            lambda actor, name: actor.load_connect.remote(shared, number[name], len(number)),
            _ANSWER_S,
        )
        longest_s = order.longest_s + _READY_S
        ends = time.monotonic() + longest_s
        while True:
            ready = self._all(lambda actor, _: actor.load_is_ready.remote(), _ANSWER_S)
            waiting = [name for name, is_ready in ready.items() if not is_ready]
            if not waiting:
                return
            if time.monotonic() > ends:
                raise StoreError(f"{waiting[0]} did not connect within {longest_s:.0f} s")
            time.sleep(_POLL_S)

    def _offsets(self) -> dict[str, Offset]:
        import ray

        try:
            return {machine.name: offset_of(machine.actor) for machine in self._machines}
        except ray.exceptions.RayError as error:
            raise StoreError(f"a client machine is lost: {type(error).__name__}") from error

    def _each(self, call: Callable[[Any, str], Any], timeout_s: float) -> dict[str, Any]:
        """Results of a call on every machine, by name; `Lost` for machines that are lost or failed.

        Args:
            call: gets a machine's actor and name, and returns Ray's reference to the answer.
        """
        import ray

        answers = {machine.name: call(machine.actor, machine.name) for machine in self._machines}

        def answer(name: str) -> Any:
            try:
                return ray.get(answers[name], timeout=timeout_s)
            except ray.exceptions.RayActorError:
                return Lost(f"{name} was lost while it sent")
            except ray.exceptions.RayTaskError as error:
                return Lost(f"{name}: {error.cause or error}")
            except ray.exceptions.GetTimeoutError:
                return Lost(f"{name} did not answer within {timeout_s:.0f} s")

        with ThreadPoolExecutor(len(answers)) as pool:
            return dict(zip(answers, pool.map(answer, answers), strict=True))

    def _all(self, call: Callable[[Any, str], Any], timeout_s: float) -> dict[str, Any]:
        """Results of `_each`; raises `StoreError` if a machine is lost or failed."""
        answers = self._each(call, timeout_s)
        for answer in answers.values():
            if isinstance(answer, Lost):
                raise StoreError(str(answer))
        return answers
