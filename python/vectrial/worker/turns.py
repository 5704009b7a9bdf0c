"""The trials of a job that take turns with those of other jobs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from vectrial.model.phase import Phase, Slice
from vectrial.stats.quantiles import withhold_quantiles
from vectrial.telemetry.scheduling import SchedulingTime, descendants, scheduling_time
from vectrial.worker import ending
from vectrial.worker.messages import Finished, GiveTurn, TurnResult
from vectrial.worker.parent import Parent
from vectrial.workload.turn_load import TurnLoad

#: The loads of a trial, in order, and phases that need no measuring. Other work of the trial ends
#: with the generator.
Loads = Generator[TurnLoad | Phase]
#: Why nothing is known of the machine in a phase.
_SHARED = "it took turns with other stores"


@dataclass
class _TrialArm:
    """A trial whose loads take turns. loads: the loads after `load`, which waits for turns. used_s:
    processor seconds of the store in its turns; None if unknown."""

    out: Finished
    loads: Loads
    load: TurnLoad | None = None
    slices: list[Slice] = field(default_factory=list)
    used_s: float | None = 0.0

    def advance(self) -> None:
        """Go on to the next load, if any, and open it.

        Raises:
            Exception: whatever a store raises.
        """
        self.load, self.slices, self.used_s = None, [], 0.0
        load = next(self.loads, None)
        while isinstance(load, Phase):  # of which there is nothing to measure
            self.out.phases.append(load)
            load = next(self.loads, None)
        if load is not None:
            load.open()
            self.load = load

    def fail(self, why: str) -> None:
        """Mark the trial as failed; it takes no more turns."""
        self.out.status, self.out.reason = "failed", why
        load, self.load = self.load, None
        try:
            if load is not None:
                load.discard()
            self.loads.close()
        except Exception as error:  # noqa: BLE001 - it has failed already, and why is known
            self.out.reason = f"{why}; then {type(error).__name__}: {error}"


class TurnTaking:
    """Opens the loads of trials, and has each send when its turn comes.

    Args:
        store_cpu_s: returns the store's processor seconds so far, or None if unknown. servers: the
            server's processes on this machine; None for a store in this process.
    """

    def __init__(
        self, parent: Parent, store_cpu_s: Callable[[], float | None], servers: Sequence[int] | None
    ) -> None:
        self._parent, self._store_cpu_s, self._servers = parent, store_cpu_s, servers
        self._arms: dict[str, _TrialArm] = {}
        #: End of the last turn of any arm, and the store's processor seconds at that instant.
        self._last: tuple[int, float | None] | None = None
        #: Processes of the client and the store.
        self._pids: Sequence[int] = ()

    @property
    def is_open(self) -> bool:
        """True if a load waits for its turn."""
        return any(arm.load is not None for arm in self._arms.values())

    def add(self, out: Finished, loads: Loads) -> None:
        """Open the first load of a trial, whose outcome goes to `out`."""
        arm = self._arms[out.key] = _TrialArm(out, loads)
        self._run_guarded(arm, arm.advance)

    def run(self) -> None:
        """Take turns until no trial has a load left."""
        frozen = gc.get_freeze_count()
        gc.collect()
        gc.freeze()  # a collection within a turn stays short
        try:
            while waiting := [arm for arm in self._arms.values() if arm.load is not None]:
                names = {arm.out.key: arm.load.name for arm in waiting if arm.load is not None}
                self._last = None
                self._pids = descendants([os.getpid(), *(self._servers or ())])
                for given in self._parent.turns(names):
                    self._parent.turn_result(self._take(given))
                for arm in waiting:
                    if arm.load is not None:
                        self._run_guarded(arm, lambda arm=arm: self._conclude(arm))  # type: ignore[misc]
        finally:
            if not frozen:
                gc.unfreeze()

    def _take(self, message: GiveTurn) -> TurnResult:
        arm = self._arms[message.key]
        if arm.load is None:
            return TurnResult(message.key, None, arm.out.reason or "it has ended")
        began_ns, before_s = perf_counter_ns(), self._store_cpu_s()
        load, found = arm.load, []
        self._run_guarded(arm, lambda: found.append(load.take(message.turn, self._spent)))
        if not found:
            return TurnResult(message.key, None, arm.out.reason or "")
        after_s = self._store_cpu_s()
        idle_s, idle_cpu_s = self._idle(began_ns, before_s)
        taken = replace(found[0], idle_s=idle_s, idle_cpu_s=idle_cpu_s)
        self._last = perf_counter_ns(), after_s
        if before_s is None or after_s is None or arm.used_s is None:
            arm.used_s = None
        else:
            arm.used_s += after_s - before_s
        arm.slices.append(taken)
        return TurnResult(message.key, taken)

    def _spent(self) -> SchedulingTime | None:
        return scheduling_time(self._pids)

    def _idle(self, began_ns: int, before_s: float | None) -> tuple[float, float | None]:
        """Seconds since the store's last turn in any arm, and its processor seconds since."""
        if self._last is None:
            return 0.0, None
        ended_ns, ended_s = self._last
        known = before_s is not None and ended_s is not None
        used_s = max(0.0, before_s - ended_s) if known else None  # type: ignore[operator]
        return (began_ns - ended_ns) / 1e9, used_s

    def _conclude(self, arm: _TrialArm) -> None:
        """Record the phase of a load that has no more turns, and go on to the next load."""
        assert arm.load is not None, "it waits"
        phase = arm.load.close()
        phase.slices = tuple(one for one in arm.slices if one.turn.round >= 0)
        _record_pause(phase)
        phase.unsampled = _SHARED
        if self._servers is not None:
            self._add_usage(phase, arm)
        arm.out.phases.append(phase)
        phase.judge_pending()
        withhold_quantiles(phase)
        arm.advance()

    def _add_usage(self, phase: Phase, arm: _TrialArm) -> None:
        """Add what the server used in the turns of a phase, including their heads."""
        names = ("server_cpu_s", "server_cores", "server_cpu_us_per_op")
        seconds = sum(one.seconds + one.head_s for one in arm.slices)
        count = sum(one.count + one.head_count for one in arm.slices)
        if arm.used_s is None or not (seconds and count):
            phase.missing |= dict.fromkeys(names, "nobody told")
            return
        phase.metrics |= {
            "server_cpu_s": arm.used_s,
            "server_cores": arm.used_s / seconds,
            "server_cpu_us_per_op": arm.used_s / count * 1e6,
        }

    def _run_guarded(self, arm: _TrialArm, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - any failure of a store fails its trial
            arm.fail(ending.log_error(error))


def _record_pause(phase: Phase) -> None:
    """Record how long the phase's clock stood still between its turns."""
    if phase.slices:
        last = phase.slices[-1]
        really_ns = last.began_ns + round(last.seconds * 1e9) - phase.slices[0].began_ns
        phase.paused_ns = max(0, really_ns - (phase.ended_ns - phase.started_ns))
