"""The bench of `vectrial fit`: it measures the steps of the search, all into one run folder."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from vectrial.analysis.fit import FitStep, LimitsPurpose, fit_of, phase_of, step_of
from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Trial
from vectrial.cli import one_store as one
from vectrial.cli import run as run_command
from vectrial.cli.output import say
from vectrial.model.errors import StoreError, UserError
from vectrial.model.lane import lanes_of
from vectrial.model.placement import Limits, Placement, Provider
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.results.folder import replace_text
from vectrial.run.prepare import RESOLVED, new_folder, plan_of, toml_of
from vectrial.servers.limits import no_limits
from vectrial.servers.provide import choose, recipe_of
from vectrial.suite.model import ExperimentRef, Prices, Suite, read_suite
from vectrial.tune.least import LimitsTry, Reply, seek
from vectrial.util import formatting

#: Seconds that a load may take in any case, and that a step may take beside its load.
_LEAST_LOAD_S, _BESIDE_S = 5.0, 60.0
#: Of the first step of a store, which nothing is known about.
_FIRST_TIMEOUT_S = 3600.0
#: Steps that a search takes as a rule, for the estimate.
_USUAL_STEPS = 13


@dataclass(frozen=True)
class FitOptions:
    """The requirements on a step, and the search parameters, from the command's options."""

    p99_ms: float
    recall: float
    errors: float
    load_factor: float
    rate: float
    clients: int | None
    seconds: float
    warmup_s: float
    confirm_seconds: float
    confirmations: int
    resolution: float

    @property
    def search(self) -> str:
        """Readable description of how the search is made; the trials do not hold it."""
        return (
            f"The least machine: memory to {self.resolution:g}, confirmed by"
            f" {formatting.plural(self.confirmations, 'load')}; a load may take"
            f" {self.load_factor:g} times as long as with the whole machine."
        )

    def parameters(self, purpose: LimitsPurpose) -> dict[str, Any]:
        """Parameters of the experiment in a step with this purpose."""
        confirms = purpose is LimitsPurpose.CONFIRM
        load = {"rate": self.rate} if self.clients is None else {"clients": self.clients}
        return {
            "p99_ms": self.p99_ms,
            "recall": self.recall,
            "errors": self.errors,
            "duration_s": self.confirm_seconds if confirms else self.seconds,
            "warmup_s": self.warmup_s,
            **load,
        }


@dataclass(frozen=True)
class _Baseline:
    """Results of a store's first step that apply to its other steps. setting: their search
    setting."""

    setting: Mapping[str, Any]
    load_limit_s: float | None = None
    timeout_s: float = _FIRST_TIMEOUT_S


@dataclass
class Bench:
    """Measures stores one after the other. Results in the run folder are not measured again.

    command: the command that resumes the run, without its option.
    """

    stores: Sequence[type[Store]]
    options: FitOptions
    dataset: str
    rows: int | None
    index: str | None
    params: Mapping[str, Any]
    search: Mapping[str, Any]
    lane: str | None
    k: int
    prices: Prices | None
    console: Console
    allow_exposed: bool
    command: str
    folder: Path = field(default_factory=Path)
    _measured: list[ExperimentRef] = field(default_factory=list)
    _timeout_s: float = 0.0
    _known_lines: set[str] = field(default_factory=set)

    def begin(self, out: Path, resume: Path | None) -> None:
        """Check that limits can be set here, and choose the folder's name or read the run in it.

        Raises:
            UserError: they cannot, a store cannot do what is asked, or other options made the run.
        """
        for store in self.stores:
            _check_limits(store)
            self._plan(
                store,
                LimitsTry(LimitsPurpose.WHOLE, *self._whole(store)),
                1,
                _Baseline(self.search),
            )
        if resume is None:
            self.folder = new_folder(out, self._suite(self.stores, []))
            return
        if not (resume / RESOLVED).is_file():
            raise UserError("there is no run here to resume", where=str(resume))
        suite = read_suite(resume / RESOLVED)
        if not self._same(suite):
            raise UserError(
                "this run was not made by this command with these options",
                where=str(resume),
                remedy="give the options of the first call, or leave --resume out",
            )
        self.folder, self._measured = resume.resolve(), list(suite.experiments)
        self._timeout_s = suite.trial_timeout_s

    def measure(self, store: type[Store]) -> None:
        """Search for the least limits of a store.

        Raises:
            StoreError: it does not work on this machine.
        """
        total_bytes, cpus = self._whole(store)
        search = seek(
            total_bytes,
            cpus,
            resolution=self.options.resolution,
            confirmations=self.options.confirmations,
        )
        baseline, number, trials = _Baseline(self.search), 1, list[Trial]()
        attempt, began = next(search), time.monotonic()
        while True:
            trial, fresh = self._step(store, attempt, number, baseline)
            trials.append(trial)
            step = step_of(trial)
            self._say(store, step)
            if attempt.purpose is LimitsPurpose.WHOLE:
                baseline = self._baseline_of(step, baseline)
                left = (_USUAL_STEPS - 1) * (time.monotonic() - began)
                if fresh and step.verdict.holds:
                    self._line(
                        f"{store.name}: about {_USUAL_STEPS - 1} more steps,"
                        f" {formatting.seconds(left)}"
                    )
            number += 1
            try:
                attempt = search.send(_reply(step))
            except StopIteration:
                break
        self._line(f"{store.name}: {_sentence(trials)}")

    def _step(
        self, store: type[Store], attempt: LimitsTry, number: int, baseline: _Baseline
    ) -> tuple[Trial, bool]:
        """The trial of a step, and whether it was measured now."""
        plan = self._plan(store, attempt, number, baseline)
        (planned,) = plan.trials
        trial = self._find(planned.row.key)
        if trial is not None:
            self._record(plan)
            return trial, False
        run_command.measure(
            plan,
            plan.suite,
            toml_of(plan.suite),
            self.folder,
            self.console,
            again=f"{self.command} --resume {shlex.quote(str(self.folder))}",
            allow_exposed=self.allow_exposed,
            known_lines=self._known_lines,
        )
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
        trials = {trial.key: trial for trial in load(self.folder).trials}
        found = trials.get(key)
        return None if found is not None and found.status == "skipped" and not skipped else found

    def _record(self, plan: Plan) -> None:
        """Add a step to the run's suite, unless it is already there."""
        if plan.suite.experiments[0] in self._measured:
            return
        self._measured += plan.suite.experiments
        self._timeout_s = max(self._timeout_s, plan.suite.trial_timeout_s)
        suite = self._suite(self.stores, self._measured, self._timeout_s)
        replace_text(self.folder / RESOLVED, toml_of(suite))

    def _plan(
        self, store: type[Store], attempt: LimitsTry, number: int, baseline: _Baseline
    ) -> Plan:
        """The plan of one step.

        Raises:
            UserError: the store cannot do what is asked.
        """
        limit = {} if baseline.load_limit_s is None else {"load_limit_s": baseline.load_limit_s}
        experiment = {
            "experiment": "fit",
            "stores": [store.name],
            "memory": f"{attempt.memory_bytes} B",
            "processors": attempt.cpus,
            "search": dict(baseline.setting),
            "step": number,
            "purpose": str(attempt.purpose),
            **self.options.parameters(attempt.purpose),
            **limit,
        }
        suite = self._suite([store], [ExperimentRef.model_validate(experiment)], baseline.timeout_s)
        plan = plan_of(suite, suite.name)
        if plan.refusals:
            raise UserError(plan.refusals[0].reason)
        return plan

    def _suite(
        self,
        stores: Sequence[type[Store]],
        experiments: Sequence[ExperimentRef],
        timeout_s: float = _FIRST_TIMEOUT_S,
    ) -> Suite:
        """The suite for steps of one or several stores."""
        suites = [
            one.suite_of(
                "fit",
                store,
                dataset=self.dataset,
                rows=self.rows,
                indexes=[(one.index_of(store, self.index), self.params)],
                lane=self.lane,
                k=self.k,
                repeats=1,
                experiments=[{"experiment": "fit"}],
            )
            for store in stores
        ]
        name = suites[0].name if len(self.stores) == 1 else "fit"
        return suites[0].model_copy(
            update={
                "name": name,
                "description": self.options.search,
                "stores": [ref for suite in suites for ref in suite.stores],
                "experiments": list(experiments),
                "trial_timeout_s": timeout_s,
                "prices": self.prices,
            }
        )

    def _same(self, suite: Suite) -> bool:
        """True if a run's suite was made with these options; prices may differ."""
        parameters = [self.options.parameters(purpose) for purpose in LimitsPurpose]
        own = self._suite(self.stores, suite.experiments, suite.trial_timeout_s)
        own = own.model_copy(update={"prices": suite.prices, "name": suite.name})
        first = own.model_copy(update={"stores": own.stores[: len(suite.stores)]})
        return suite in (own, first) and all(
            {name: ref.parameters().get(name) for name in parameters[0]} in parameters
            for ref in suite.experiments
        )

    def _whole(self, store: type[Store]) -> tuple[int, float]:
        """The machine's memory in bytes, and the number of processors that a store may use."""
        if lanes_of(store)[0] == "embedded" or store.server is None:
            cores = len(os.sched_getaffinity(0))
        else:
            cores = len(Placement().resolved().server_cores or os.sched_getaffinity(0))
        return psutil.virtual_memory().total // 2**20 * 2**20, float(cores)

    def _baseline_of(self, step: FitStep, baseline: _Baseline) -> _Baseline:
        """The baseline of the later steps, from the first step. baseline: the previous one."""
        loaded, searched = phase_of(step.trial, "load"), phase_of(step.trial, "search")
        if loaded is None or searched is None:
            return baseline
        name = searched.params.get("recall_parameter")
        found = {} if name is None else {str(name): searched.params[str(name)]}
        ready_s = loaded.value("ready_s") or 0.0
        limit_s = round(max(_LEAST_LOAD_S, self.options.load_factor * ready_s), 1)
        search_s = (searched.started_s or 0.0) + (searched.duration_s or 0.0) - ready_s
        longest_s = max(search_s, self.options.confirm_seconds)
        timeout_s = limit_s + self.options.load_factor * longest_s + _BESIDE_S
        return _Baseline({**baseline.setting, **found}, limit_s, round(timeout_s, 1))

    def _say(self, store: type[Store], step: FitStep) -> None:
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
        self._line(f"{store.name} {step.number}: {step.purpose}: {step.limits}: {shown}")

    def _line(self, text: str) -> None:
        say(self.console, text)


def _check_limits(store: type[Store]) -> None:
    """Raise `UserError` if no limits can be set on a store."""
    recipe = recipe_of(store)
    if recipe is not None:
        provider = choose(recipe).provider
        if provider is Provider.EXTERNAL:
            raise UserError(
                f"the server of {store.name} is not started here: its limits cannot be set",
                remedy="unset its address, so that Vectrial starts one",
            )
        if provider is Provider.DOCKER:
            return
    if why := no_limits(Limits(1.0, 2**30)):
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
