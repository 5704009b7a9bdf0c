"""The smallest machine for a store: the least memory and processor time within limits."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import psutil
from pydantic import Field, InstanceOf

from vectrial.analysis.fit import (
    FitResult,
    FitStep,
    LimitsPurpose,
    fit_of,
    fits,
    step_of,
)
from vectrial.analysis.run_data import RunData, load
from vectrial.analysis.trial import Trial
from vectrial.model.errors import StoreError, UserError
from vectrial.model.lane import lanes_of
from vectrial.model.placement import Limits, Placement, Provider
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.questions.bench import DATASET, Bench, question, run_search, trials_in
from vectrial.questions.fit_suites import Baseline, FitRequirements, FitSubject, FitSuites
from vectrial.questions.least_limits import LimitsRequest, Reply, seek
from vectrial.results.folder import replace_text
from vectrial.run.prepare import RESOLVED, toml_of
from vectrial.servers.limits import why_no_limits
from vectrial.servers.provide import choose_provider, recipe_of
from vectrial.stores import registry
from vectrial.suite.model import ExperimentRef, Prices
from vectrial.util import formatting
from vectrial.workload.record import ERROR_SHARE

#: Steps that a search takes as a rule, for the estimate.
_USUAL_STEPS = 13


@dataclass(frozen=True)
class FitAnswer:
    """The least machine of each store, and the run that holds every step.

    folder: the run folder. fits: the stores that could be measured. failures: reasons, by name of
        the stores that could not.
    """

    folder: Path
    run: RunData
    fits: tuple[FitResult, ...]
    failures: Mapping[str, str]

    @property
    def is_confirmed(self) -> bool:
        """True if every store has a confirmed result."""
        return bool(self.fits) and not self.failures and all(fit.confirmed for fit in self.fits)


@question
def fit(
    stores: str | Sequence[str],
    *,
    dataset: str = DATASET,
    rows: int | None = None,
    p99_ms: float = 20.0,
    recall: float = 0.95,
    errors: float = ERROR_SHARE,
    load_factor: Annotated[float, Field(ge=1.1, le=1000)] = 3.0,
    rate: float = 200.0,
    clients: int | None = None,
    index: str | None = None,
    params: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    lane: str | None = None,
    k: int = 10,
    seconds: float = 5.0,
    warmup_seconds: float = 20.0,
    confirm_seconds: float = 10.0,
    confirmations: Annotated[int, Field(ge=1, le=100)] = 3,
    resolution: Annotated[float, Field(ge=0.01, le=1)] = 0.1,
    prices: Prices | None = None,
    bench: InstanceOf[Bench] | None = None,
) -> FitAnswer:
    """Find the least memory and processor time at which stores load, survive and hold limits, as
    `vectrial fit` does.

    Args: stores: names of stores, measured one after the other. rows: the first of the dataset; all
    unless given. p99_ms: limit on p99 latency in milliseconds. recall: least mean recall. errors:
    greatest share of failed requests. load_factor: longest load time, as a multiple of that with
    the whole machine. rate: searches per second, on a schedule (open loop). clients: in its place,
    clients that wait for each answer (closed loop). index, params, search, lane, k: as in
    `capacity`. seconds: duration of the searches that count. warmup_seconds: duration of the
    searches before them. confirm_seconds: duration of the searches that confirm the answer, in
    `confirmations` steps, each with a new load. resolution: the search ends when the least memory
    that holds and the greatest that does not are this close, as a share. prices: adds the cost per
    month. bench: where and how to measure.

    Raises:
        UserError: an argument is wrong, no limits can be set here, or a store does not support it.
        StoreError: the only store does not work on this machine.
    """
    bench = bench or Bench()
    names = [stores] if isinstance(stores, str) else list(dict.fromkeys(stores))
    kinds = [registry.load(name) for name in names]
    requirements = FitRequirements(
        p99_ms, recall, errors, load_factor, rate, clients, seconds, warmup_seconds,
        confirm_seconds, confirmations, resolution,
    )  # fmt: skip
    subject = FitSubject(dataset, rows, index, params or {}, search or {}, lane, k, prices)
    steps = _Steps(FitSuites(kinds, requirements, subject), bench)
    steps.begin()
    failures = {}
    for kind in kinds:
        try:
            steps.measure(kind)
        except (StoreError, UserError) as error:
            if len(kinds) == 1:
                raise
            failures[kind.name] = str(error)
            bench.progress(f"! {kind.name}: {error}")
    if len(failures) == len(kinds) and not (steps.folder / RESOLVED).is_file():
        raise StoreError("; ".join(f"{name}: {reason}" for name, reason in failures.items()))
    run = load(steps.folder)
    return FitAnswer(steps.folder, run, tuple(fits(run)), failures)


@dataclass
class _Steps:
    """The steps of the search, store by store, all in one run folder. Results in the folder are not
    measured again."""

    suites: FitSuites
    bench: Bench
    folder: Path = field(default_factory=Path)
    _measured: list[ExperimentRef] = field(default_factory=list)
    _timeout_s: float = 0.0

    def begin(self) -> None:
        """Check that limits can be set here, and choose the folder's name or read the run in it.

        Raises:
            UserError: they cannot, a store cannot do what is asked, or other options made the run.
        """
        suites = self.suites
        baseline = Baseline(suites.subject.search)
        for store in suites.stores:
            _check_limits(store)
            suites.plan(
                store, LimitsRequest(LimitsPurpose.WHOLE, *_whole_machine(store)), 1, baseline
            )
        resumed = self.bench.resumed(suites.is_own)
        if resumed is None:
            self.folder = self.bench.new_folder(suites.suite(suites.stores, []))
            return
        self.folder, suite = resumed
        self._measured, self._timeout_s = list(suite.experiments), suite.trial_timeout_s

    def measure(self, store: type[Store]) -> None:
        """Search for the least limits of a store.

        Raises:
            StoreError: it does not work on this machine.
        """
        suites, began = self.suites, time.monotonic()
        baseline, trials = Baseline(suites.subject.search), list[Trial]()

        def reply(attempt: LimitsRequest) -> Reply:
            nonlocal baseline
            trial, fresh = self._step(store, attempt, len(trials) + 1, baseline)
            trials.append(trial)
            step = step_of(trial)
            self.bench.progress(_line(store, step))
            if attempt.purpose is LimitsPurpose.WHOLE:
                baseline = suites.baseline(step, baseline)
                if fresh and step.verdict.holds:
                    left = formatting.seconds((_USUAL_STEPS - 1) * (time.monotonic() - began))
                    self.bench.progress(
                        f"{store.name}: about {_USUAL_STEPS - 1} more steps, {left}"
                    )
            return _reply(step)

        limits = seek(
            *_whole_machine(store),
            resolution=suites.options.resolution,
            confirmations=suites.options.confirmations,
        )
        run_search(limits, reply)
        self.bench.progress(f"{store.name}: {_sentence(trials)}")

    def _step(
        self, store: type[Store], attempt: LimitsRequest, number: int, baseline: Baseline
    ) -> tuple[Trial, bool]:
        """The trial of a step, and whether it was measured now."""
        plan = self.suites.plan(store, attempt, number, baseline)
        (planned,) = plan.trials
        trial = self._find(planned.row.key)
        if trial is not None:
            self._record(plan)
            return trial, False
        self.bench.run(plan, self.folder, question=self.folder)
        trial = self._find(planned.row.key, skipped=True)
        if trial is None or trial.status == "skipped":
            why = "" if trial is None else f": {trial.reason}"
            raise StoreError(f"{store.name} cannot be measured here{why}")
        self._record(plan)
        return trial, True

    def _find(self, key: str, *, skipped: bool = False) -> Trial | None:
        """The trial of a key in the run folder."""
        if not (self.folder / RESOLVED).is_file():
            return None
        trials = {trial.key: trial for trial in trials_in(self.folder)}
        found = trials.get(key)
        return None if found is not None and found.status == "skipped" and not skipped else found

    def _record(self, plan: Plan) -> None:
        """Add a step to the run's suite, unless it is already there."""
        if plan.suite.experiments[0] in self._measured:
            return
        self._measured += plan.suite.experiments
        self._timeout_s = max(self._timeout_s, plan.suite.trial_timeout_s)
        suite = self.suites.suite(self.suites.stores, self._measured, self._timeout_s)
        replace_text(self.folder / RESOLVED, toml_of(suite))


def _whole_machine(store: type[Store]) -> tuple[int, float]:
    """The machine's memory in bytes, and the number of processors that a store may use."""
    if lanes_of(store)[0] == "embedded" or store.server is None:
        cores = len(os.sched_getaffinity(0))
    else:
        cores = len(Placement().resolved().server_cores or os.sched_getaffinity(0))
    return psutil.virtual_memory().total // 2**20 * 2**20, float(cores)


def _line(store: type[Store], step: FitStep) -> str:
    """Progress line of a step."""
    p99, qps, recall = (step.figure(n) for n in ("latency_p99", "qps", "recall_mean"))
    figures = []
    if p99 is not None and qps is not None and recall is not None:
        figures = [
            f"{formatting.number(qps)} QPS",
            f"p99 {formatting.duration(p99)}",
            f"recall {formatting.recall(recall)}",
            f"{step.figure('errors') or 0:,.0f} errors",
        ]
    shown = ", ".join([str(step.verdict), *figures])
    return f"{store.name} {step.number}: {step.purpose}: {step.limits}: {shown}"


def _check_limits(store: type[Store]) -> None:
    """Raise `UserError` if no limits can be set on a store."""
    recipe = recipe_of(store)
    if recipe is not None:
        provider = choose_provider(recipe).provider
        if provider is Provider.EXTERNAL:
            raise UserError(
                f"the server of {store.name} is not started here: its limits cannot be set",
                remedy="unset its address, so that Vectrial starts one",
            )
        if provider is Provider.DOCKER:
            return
    if why := why_no_limits(Limits(1.0, 2**30)):
        raise UserError(
            f"limits of memory and processors cannot be set here: {why}",
            remedy="run as root, or in a delegated control group",
        )


def _reply(step: FitStep) -> Reply:
    peak = step.peak_bytes or step.figure("server_peak_rss_bytes")
    return Reply(step.verdict.outcome, None if peak is None else int(peak))


def _sentence(trials: Sequence[Trial]) -> str:
    """The answer in words."""
    fit = fit_of(trials)
    if not fit.confirmed:
        return fit.reason
    return f"the least machine: {fit.confirmed[0].limits}"
