"""Searches by vector and text at once: as one phase, or in turns with those of other stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vectrial.engine.recorders import judge_of
from vectrial.model.context import Context, operating_point
from vectrial.model.dataset import Truth
from vectrial.model.fusion import Blend
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.workload import ClosedLoop
from vectrial.workload.in_turns import Taker, TurnLoad, Turns
from vectrial.workload.ndcg import NdcgScorer, RelevanceJudgments
from vectrial.workload.opening import opening_of
from vectrial.workload.python import sdk_search
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.pool_turns import PoolTurns
from vectrial.workload.python.sdk_turns import SdkTurns
from vectrial.workload.searchers import hybrid_searchers

#: Seconds that the warm-up of a client may take.
_WARMUP_S = 5.0


@dataclass(frozen=True)
class HybridQuestions:
    """The questions of a hybrid load.

    texts: texts of the dataset's queries, in their order. truth: the result of an exact fusion,
        against which recall is measured. judgments: the relevant rows of each query, which add
        `ndcg` and `ndcg_exact` to the phase.
    """

    blend: Blend
    texts: Sequence[str]
    truth: Truth
    judgments: RelevanceJudgments | None


class HybridLoad(TurnLoad):
    """A load like `SearchLoad`, with the vectors of the dataset's queries and their texts.

    Args:
        finish: completes the phase, whichever way it was measured.
    """

    name = "search"

    def __init__(
        self,
        context: Context,
        point: Mapping[str, Any],
        load: ClosedLoop,
        questions: HybridQuestions,
        finish: Callable[[Phase], None],
        *,
        warmup_queries: int = 100,
    ) -> None:
        self._context, self._point, self._load = context, point, load
        self._questions, self._finish = questions, finish
        self._warmup_queries = warmup_queries
        self._params = operating_point(context, point).search

    @cached_property
    def _share(self) -> sdk_search.ClientShare:
        """The combined task of all processes of the sdk lane."""
        context, asked = self._context, self._questions
        question = sdk_search.HybridQuestion(
            opening_of(context), context.k, self._params, asked.blend, tuple(asked.texts)
        )
        return sdk_search.ClientShare(
            question,
            context.dataset.queries,
            asked.truth,
            self._load,
            context.certificate.placement.pins,
            self._warmup_queries,
            context.seed,
            self.name,
            asked.judgments,
        )

    def alone(self) -> Phase:
        """Measure the load as a whole."""
        context, load, asked = self._context, self._load, self._questions
        how: dict[str, Any] = {
            "seed": context.seed,
            "progress": context.progress,
            "name": self.name,
            "judgments": asked.judgments,
        }
        queries = context.dataset.queries, asked.truth
        # Settings that a server keeps are settled here, as in `SearchLoad`.
        here = self._searchers()
        if context.lane is Lane.SDK:
            share = self._share
            how |= {"cores": share.cores, "warmup_queries": self._warmup_queries}
            phase = sdk_search.search(share.question, *queries, load, **how)
        else:
            how |= {"clients": load.clients, "min_s": load.min_s, "max_s": load.max_s}
            phase = closed_loop(here, *queries, warmup_count=self._warmup_queries, **how)
        return self._measured(phase)

    def open(self) -> None:
        """Connect and warm up, to take turns.

        Raises:
            StoreError: a client could not connect.
        """
        judge = judge_of(self._questions.truth)
        here, load, context = self._searchers(), self._load, self._context
        taker: Taker
        if context.lane is Lane.SDK:
            taker = SdkTurns(self._share, judge, context.progress)
        else:
            pool = ClientPool(
                here, context.dataset.queries, judge, load.clients, context.seed, 0.0, None, None
            )
            pool.warmup = (self._warmup_queries, _WARMUP_S)
            if self._questions.judgments is not None:
                pool.scorer = NdcgScorer.of(self._questions.judgments, load.clients)
            taker = PoolTurns(pool)
        self._turns = Turns(taker, judge, {"loop": "closed", "clients": load.clients})

    def close(self) -> Phase:
        """End the turns; returns the phase of all of them."""
        assert self._turns is not None, "it was opened"
        phase, _ = self._turns.phase(self.name)
        return self._measured(phase)

    def _searchers(self) -> Any:
        asked = self._questions
        return hybrid_searchers(
            self._context.store, self._context.k, self._params, asked.blend, asked.texts
        )

    def _measured(self, phase: Phase) -> Phase:
        phase.params = {**phase.params, "k": self._context.k, **self._point}
        self._finish(phase)
        return phase
