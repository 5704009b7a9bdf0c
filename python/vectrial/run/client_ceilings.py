"""Ceilings of the client, measured before the native trials of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from vectrial.engine.parts import Order, Sent
from vectrial.model.errors import StoreError
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase, State
from vectrial.model.placement import Ceiling, Certificate, Placement
from vectrial.model.progress import LineProgress
from vectrial.model.store import Store
from vectrial.plan.model import Job
from vectrial.suite.model import Rules
from vectrial.workload.ceiling import FAMILIES, Searches, in_flight_for, measure


class ClientMachines(Protocol):
    """Machines that send a job's loads together. address: where they reach this machine."""

    address: str

    def drive(self, order: Order) -> Sent:
        """Have them send a load.

        Raises:
            StoreError: they cannot.
        """

    def ceiling(self, searches: Searches, placement: Placement) -> Ceiling:
        """The sum of the machines' ceilings; see `vectrial.workload.ceiling.measure`.

        Raises:
            StoreError: a ceiling could not be measured.
        """


class ClientCeilings:
    """The client limits of a run's jobs. Each ceiling is measured before the first job that needs
    it, and again later if a phase exceeded it.

    Raises:
        UserError: the suite's placement does not fit this machine.
    """

    def __init__(
        self, rules: Rules, note: LineProgress, clients: ClientMachines | None = None
    ) -> None:
        self._rules, self._note, self._clients = rules, note, clients
        self._placement = rules.placement.resolved()
        self._ceilings: dict[tuple[Any, ...], Ceiling | str] = {}

    def certificate(self, job: Job) -> Certificate:
        """The limits of a job's clients."""
        found: dict[int, Ceiling] = {}
        lacking = ""
        for trial in job.trials:
            if trial.row.lane != Lane.NATIVE or trial.experiment.starts_from is State.EMPTY:
                continue
            in_flight = in_flight_for(
                trial.experiment.clients_at(trial.point), self._placement.client_machines
            )
            ceiling = self._ceiling(job.store, trial.row.dim, in_flight)
            if isinstance(ceiling, Ceiling):
                found[in_flight] = ceiling
            else:
                lacking = ceiling
        return Certificate(self._rules.client_limits, self._placement, found, lacking)

    def forget_exceeded(self, phases: Iterable[Phase]) -> None:
        """Forget all ceilings if one of these phases exceeded its own: something else may have been
        busy while they were measured."""
        if any((phase.metrics.get("ceiling_share") or 0.0) > 1 for phase in phases):
            self._note("the client did more than its ceiling: it is measured again")
            self._ceilings.clear()

    def _ceiling(self, store: type[Store], dim: int, in_flight: int) -> Ceiling | str:
        """The ceiling, or the reason why there is none."""
        if store.protocol is None or store.protocol not in FAMILIES:
            return f"no null server speaks {store.protocol}"
        key = (store.protocol, tuple(sorted(store.dialect.items())), dim, in_flight)
        if key not in self._ceilings:
            self._ceilings[key] = self._measure(
                Searches(store.protocol, dim, self._rules.k, in_flight, store.dialect)
            )
        return self._ceilings[key]

    def _measure(self, searches: Searches) -> Ceiling | str:
        of = measure if self._clients is None else self._clients.ceiling
        try:
            ceiling = of(searches, self._placement)
        except StoreError as error:
            self._note(f"the client's ceiling is not known: {error}")
            return str(error)
        self._note(
            f"client ceiling, {ceiling.in_flight} in flight: {ceiling.qps:,.0f} requests/s,"
            f" {ceiling.cpu_us:.1f} µs of CPU time each"
        )
        return ceiling
