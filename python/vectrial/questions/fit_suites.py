"""The suites of `fit`: one step after the other, under limits that the search chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.analysis.fit import FitStep, LimitsPurpose, phase_of
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.questions.bench import index_of, suite_of
from vectrial.questions.least_limits import LimitsRequest
from vectrial.run.prepare import plan_of
from vectrial.suite.model import ExperimentRef, Prices, Suite
from vectrial.util import formatting

#: Seconds that a load may take in any case, and that a step may take beside its load.
_LEAST_LOAD_S, _BESIDE_S = 5.0, 60.0
#: Timeout of the first step of a store, about which nothing is known.
_FIRST_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class FitRequirements:
    """The requirements on a step, and the search parameters, of the question."""

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
class FitSubject:
    """The subject of the question: the data, the index and the search of every store."""

    dataset: str
    rows: int | None
    index: str | None
    params: Mapping[str, Any]
    search: Mapping[str, Any]
    lane: str | None
    k: int
    prices: Prices | None


@dataclass(frozen=True)
class Baseline:
    """Results of a store's first step that apply to its other steps. setting: their search
    setting."""

    setting: Mapping[str, Any]
    load_limit_s: float | None = None
    timeout_s: float = _FIRST_TIMEOUT_S


@dataclass(frozen=True)
class FitSuites:
    """Makes the suites and the plans of the steps of stores."""

    stores: Sequence[type[Store]]
    options: FitRequirements
    subject: FitSubject

    def plan(
        self, store: type[Store], attempt: LimitsRequest, number: int, baseline: Baseline
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
        suite = self.suite([store], [ExperimentRef.model_validate(experiment)], baseline.timeout_s)
        plan = plan_of(suite, suite.name)
        if plan.refusals:
            raise UserError(plan.refusals[0].reason)
        return plan

    def suite(
        self,
        stores: Sequence[type[Store]],
        experiments: Sequence[ExperimentRef],
        timeout_s: float = _FIRST_TIMEOUT_S,
    ) -> Suite:
        """The suite for steps of one or several stores."""
        subject = self.subject
        suites = [
            suite_of(
                "fit",
                store,
                dataset=subject.dataset,
                rows=subject.rows,
                indexes=[(index_of(store, subject.index), subject.params)],
                lane=subject.lane,
                k=subject.k,
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
                "prices": subject.prices,
            }
        )

    def is_own(self, suite: Suite) -> bool:
        """True if a run's suite was made with these options; prices may differ."""
        parameters = [self.options.parameters(purpose) for purpose in LimitsPurpose]
        own = self.suite(self.stores, suite.experiments, suite.trial_timeout_s)
        own = own.model_copy(update={"prices": suite.prices, "name": suite.name})
        first = own.model_copy(update={"stores": own.stores[: len(suite.stores)]})
        return suite in (own, first) and all(
            {name: ref.parameters().get(name) for name in parameters[0]} in parameters
            for ref in suite.experiments
        )

    def baseline(self, step: FitStep, baseline: Baseline) -> Baseline:
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
        return Baseline({**baseline.setting, **found}, limit_s, round(timeout_s, 1))
