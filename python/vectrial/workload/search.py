"""Searches of an experiment, by vector in any lane or by vector and text: as one phase, or in turns
with those of other stores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial._engine import Judge
from vectrial.engine.recorders import judge_of
from vectrial.model.capabilities import Returning
from vectrial.model.context import Context, operating_point
from vectrial.model.dataset import Truth
from vectrial.model.filters import Filters
from vectrial.model.fusion import Blend
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase, Role
from vectrial.model.workload import ClosedLoop, Load
from vectrial.workload import familiarity
from vectrial.workload.answer_log import PhaseAnswers
from vectrial.workload.answers import judge
from vectrial.workload.ceiling import certify
from vectrial.workload.native import search as native_search
from vectrial.workload.native.turns import NativeTurns
from vectrial.workload.ndcg import RelevanceJudgments
from vectrial.workload.python import sdk_search
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.open_loop import open_loop
from vectrial.workload.python.pool_turns import PoolTurns
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.python.sdk_turns import SdkTurns
from vectrial.workload.queries import Queries, arrivals_of, draw_queries
from vectrial.workload.searchers import native_searches
from vectrial.workload.turn_load import TurnLoad, Turns, TurnSender

#: Numbers of the phases of this process: the queries of each are moved otherwise.
_PHASES = itertools.count()


@dataclass(frozen=True)
class HybridQueries:
    """The questions of searches by vector and text.

    texts: texts of the dataset's queries, in their order. truth: the result of an exact fusion,
        against which recall is measured. judgments: the relevant rows of each query, which add
        `ndcg` and `ndcg_exact` to the phase.
    """

    blend: Blend
    texts: Sequence[str]
    truth: Truth
    judgments: RelevanceJudgments | None


class SearchLoad(TurnLoad):
    """The dataset's queries under a load, through the lane of the trial; every answer is judged.
    They are perturbed each time, unless the context repeats them.

    The load is measured alone by `measure_whole`, or in turns by `open`, repeated `take` and
    `close`.

    Args:
        point: the operating point, with the search parameters among its entries.
        warmup_queries: for each client, before the clock starts; in an open loop the total.
        where: a filter for every search, or one for each query.
        until: called a few times a second once the clock runs; the phase ends when it returns True,
            if the load has not ended before. Native lane only, and not in turns.
        role: role of the phase. about: its further parameters.
        hybrid: the dataset's queries are asked as they are, with these texts, through a Python
            lane in a closed loop. Answers are judged by recall, and by nDCG, alone.
    """

    #: The phase, once it was measured; its `params` are the point's, k, and how the load was
    #: offered. What the store or the server did wrong is in it as errors. Some of its answers are
    #: still to be looked at, by `Phase.look`.
    phase: Phase

    def __init__(
        self,
        context: Context,
        point: Mapping[str, Any],
        load: Load,
        *,
        warmup_queries: int = 100,
        where: Filters = None,
        name: str = "search",
        until: Callable[[], bool] | None = None,
        role: Role | None = None,
        about: Mapping[str, Any] | None = None,
        hybrid: HybridQueries | None = None,
    ) -> None:
        self._context, self._point, self._load = context, point, load
        self._warmup_queries, self._where = warmup_queries, where
        self.name, self._until, self._role, self._about = name, until, role, about or {}
        self._setting, self._hybrid = operating_point(context, point), hybrid
        if hybrid is not None:
            self._truth, self._queries = hybrid.truth, Queries.constant(context.dataset.queries)
            return
        self._truth = context.truth(context.k, where)
        seed = (context.seed, next(_PHASES))
        self._queries = draw_queries(
            context.dataset,
            self._truth,
            seed,
            repeat=context.repeat_queries,
            most=arrivals_of(load),
        )

    @property
    def takes_turns(self) -> bool:
        """True if the load can take turns: it must be sent by this machine, and in the Python lanes
        by clients that wait for their answers."""
        here = self._context.from_machines is None and self._until is None
        waits = isinstance(self._load, ClosedLoop)
        return here and (waits or self._context.lane is Lane.NATIVE)

    @property
    def _arguments(self) -> tuple[Returning, int, Any, Filters]:
        setting = self._setting
        return setting.returning, self._context.k, setting.search, self._where

    def measure_whole(self) -> Phase:
        """Measure the load as a whole."""
        context, load = self._context, self._load
        how: dict[str, Any] = {
            "seed": context.seed,
            "progress": context.progress,
            "name": self.name,
        }
        if context.lane is Lane.NATIVE:
            phase = native_search.run(
                native_searches(context.store, *self._arguments),
                context.dataset.queries,
                self._truth,
                load,
                context.certificate,
                warmup_queries=self._warmup_queries,
                show=context.show,
                check=self._check_natively,
                from_machines=context.from_machines,
                until=self._until,
                **how,
            )
            return self._complete_phase(phase)
        assert self._until is None, "the plan refuses other lanes"
        # Of the sdk lane: what the server keeps of the search parameters is settled here, where the
        # store remembers it; the clients then find it as it should be.
        share = self._share()
        made = share.question.searchers(context.store)
        check = None if self._hybrid else self._check
        asked, how = (self._queries, self._truth), {**how, "check": check}
        if context.lane is Lane.SDK:
            phase = sdk_search.search(share, load, progress=context.progress, check=check)
        elif isinstance(load, ClosedLoop):
            how["judgments"] = share.judgments
            how |= {"clients": load.clients, "min_s": load.min_s, "max_s": load.max_s}
            phase = closed_loop(made, *asked, warmup_count=self._warmup_queries, **how)
        else:
            how |= {"single_thread": self._one_thread()}
            how["warmup_queries"] = self._warmup_queries
            phase = open_loop(made, *asked, load, **how)
        return self._complete_phase(phase)

    def open(self) -> None:
        """Connect and warm up, to take turns.

        Raises:
            StoreError: a client could not connect.
        """
        judging = judge_of(self._truth)
        params = native_search.params_of(self._load)
        self._turns = Turns(self._make_sender(judging), judging, params)

    def _make_sender(self, judging: Judge) -> TurnSender:
        context, load = self._context, self._load
        assert self.takes_turns, "the plan knows"
        if context.lane is Lane.NATIVE:
            return NativeTurns(
                native_searches(context.store, *self._arguments),
                context.dataset.queries,
                judging,
                load,
                context.certificate,
                warmup_queries=self._warmup_queries,
                seed=context.seed,
                name=self.name,
            )
        assert isinstance(load, ClosedLoop), "others do not take turns here"
        share = self._share()
        made = share.question.searchers(context.store)
        if context.lane is Lane.SDK:
            return SdkTurns(share, judging, context.progress)
        return PoolTurns(share.pool(made, judging))

    def close(self) -> Phase:
        """End the turns; returns the phase of all of them."""
        assert self._turns is not None, "it was opened"
        phase, answers = self._turns.phase(self.name)
        if self._context.lane is Lane.NATIVE:
            certify(phase, phase.params.get("clients"), self._context.certificate)
            self._check_natively(phase, answers)
        elif self._hybrid is None:
            self._check(phase, answers)
        return self._complete_phase(phase)

    def _complete_phase(self, phase: Phase) -> Phase:
        params = {"k": self._context.k, **self._point, **self._about}
        phase.params = {**phase.params, **params}
        phase.role = self._role or phase.role
        self.phase = phase
        return phase

    def _share(self) -> sdk_search.ClientShare:
        """The load as the task of all clients in Python."""
        (returning, k, params, where), hybrid = self._arguments, self._hybrid
        context, opening = self._context, opening_of(self._context)
        question: sdk_search.SearchTask
        if hybrid is None:
            question = sdk_search.VectorSearchTask(opening, k, params, where, returning)
        else:
            question = sdk_search.HybridSearchTask(
                opening, k, params, hybrid.blend, tuple(hybrid.texts)
            )
        return sdk_search.ClientShare(
            question,
            self._queries,
            self._truth,
            sdk_search.clients_of(self._load),
            context.certificate.placement.pins,
            self._warmup_queries,
            context.seed,
            self.name,
            None if hybrid is None else hybrid.judgments,
            logs_answers=hybrid is None,
        )

    def _check(self, phase: Phase, answers: PhaseAnswers) -> None:
        def pending() -> None:
            context = self._context
            # Under a filter a row may be harder to answer than a query, or easier.
            if phase.metrics.get("count") and self._where is None and not context.repeat_queries:
                seed = (context.seed, next(_PHASES))
                try:
                    search = context.store.searcher_returning(*self._arguments[:3])
                    phase.metrics |= familiarity.compare(search, context.dataset, self._truth, seed)
                except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
                    phase.remark(f"nothing was asked after it: {type(error).__name__}: {error}")
            judge(context, self._where, phase, answers)

        phase.pending = pending

    def _check_natively(self, phase: Phase, answers: PhaseAnswers) -> None:
        def pending() -> None:
            asked = native_searches(self._context.store, *self._arguments)
            try:
                probed = native_search.with_probe_answers(
                    asked,
                    self._queries.warmup,
                    self._truth,
                    answers,
                    None if self._turns is None else self._context.dataset.queries,
                )
            except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
                phase.remark(f"nothing was asked after it: {type(error).__name__}: {error}")
                probed = answers
            judge(self._context, self._where, phase, probed)

        phase.pending = pending

    def _one_thread(self) -> bool:
        """True if the store's searches, or the fetches after them, allow only one thread."""
        can = type(self._context.store).capabilities.for_index(self._context.index.kind)
        returning = self._setting.returning
        fetched = returning is not Returning.IDS and returning not in can.returns
        return fetched or not can.concurrent_search
