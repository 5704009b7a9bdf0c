"""The bench on which questions are measured, and the code that all questions share: a suite for one
store, a resumed run, and a search that sends requests and receives replies."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from pydantic import ConfigDict, ValidationError, validate_call

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Trial
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.results.reader import NothingMeasured
from vectrial.run.measuring import LineView, MeasureSettings, check, measure
from vectrial.run.prepare import RESOLVED, RUNS, new_folder, toml_of
from vectrial.run.runner import Outcome, RunTimeLimit
from vectrial.suite.model import Suite, read_suite
from vectrial.suite.validation import valid_values, validate
from vectrial.util.suggest import suggestion

#: The dataset that is measured unless another one is named: real, and fetched within seconds.
DATASET = "glove-words-50-50k"

P = ParamSpec("P")
R = TypeVar("R")
Ask = TypeVar("Ask")
Reply = TypeVar("Reply")
Answer = TypeVar("Answer")


@runtime_checkable
class Measurer(Protocol):
    """Measures the part of a plan that a run folder does not hold yet."""

    def __call__(
        self, plan: Plan, text: str, folder: Path, settings: MeasureSettings, again: str | None
    ) -> Outcome:
        """text: the suite, as written to the folder. again: the command that continues after an
        interruption; None for `vectrial run --resume`."""


@dataclass(frozen=True)
class Bench:
    """The settings under which a question is measured.

    out: folder in which each run has a folder of its own; by default `runs`. resume: the run folder
        of a question that goes on; the question must be the same.
    progress: receives a line when a job begins, when a trial ends, and for other news.
    allow_exposed: also start servers that others on the network can reach.
    measure: measures a plan; by default on this machine, reporting to `progress`.
    command: the command that, with `--resume FOLDER`, goes on with the question.
    """

    out: str | Path = RUNS
    resume: str | Path | None = None
    progress: Callable[[str], None] = lambda line: None
    allow_exposed: bool = False
    measure: Measurer | None = None
    command: str = "the same question"

    def run(
        self,
        plan: Plan,
        folder: Path,
        text: str | None = None,
        *,
        time_limit: RunTimeLimit | None = None,
        question: Path | None = None,
    ) -> Outcome:
        """Measure the part of a plan that the folder does not hold yet.

        text: the suite, as written to the folder. time_limit: limit of the run. question: the
            folder that the question is resumed with, if not by `vectrial run`.
        """
        again = None
        if question is not None:
            again = f"{self.command} --resume {shlex.quote(str(question))}"
        settings = MeasureSettings(allow_exposed=self.allow_exposed, time_limit=time_limit)
        measure_plan = self.measure or self._measure
        return measure_plan(plan, text or toml_of(plan.suite), folder, settings, again)

    def _measure(
        self, plan: Plan, text: str, folder: Path, settings: MeasureSettings, again: str | None
    ) -> Outcome:
        check(plan, settings, self.progress)
        return measure(plan, plan.suite, text, folder, lambda _: LineView(self.progress), settings)

    def new_folder(self, suite: Suite) -> Path:
        """The path of a new run folder; it is not created yet."""
        return new_folder(Path(self.out), suite)

    def resumed(self, is_same: Callable[[Suite], bool]) -> tuple[Path, Suite] | None:
        """The run that goes on and its suite; None for a new question.

        is_same: whether this question made a suite.

        Raises:
            UserError: there is no run, or another question made it.
        """
        if self.resume is None:
            return None
        folder = Path(self.resume)
        if not (folder / RESOLVED).is_file():
            raise UserError("there is no run here to resume", where=str(folder))
        suite = read_suite(folder / RESOLVED)
        if not is_same(suite):
            raise UserError(
                "this run was not made by this command with these options",
                where=str(folder),
                remedy="give the options of the first call, or leave --resume out",
            )
        return folder.resolve(), suite


def trials_in(folder: Path) -> Sequence[Trial]:
    """The trials of a run; none if it was interrupted before the first."""
    try:
        return load(folder).trials
    except NothingMeasured:
        return ()


def run_search(search: Generator[Ask, Reply, Answer], measure: Callable[[Ask], Reply]) -> Answer:
    """The answer of a search: measure each request that it yields, and send it the reply, until it
    returns."""
    wanted = next(search)
    while True:
        try:
            wanted = search.send(measure(wanted))
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def question(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a question by its annotations.

    Raises:
        UserError: an argument is not what its parameter takes; it names the parameter.
    """
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)

    @functools.wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return checked(*args, **kwargs)
        except ValidationError as error:
            fault = error.errors()[0]
            named = ".".join(map(str, fault["loc"]))
            given = repr(fault["input"])[:80]
            raise UserError(
                f"'{named}': {valid_values(fault['msg'])}, got {given}", where=function.__name__
            ) from error

    return ask


def index_of(store: type[Store], name: str | None) -> str:
    """The kind of index `name`, by default the store's first that trades recall for speed.

    Raises:
        UserError: the store has no such kind.
    """
    kinds = store.capabilities.indexes
    if name is not None and name not in kinds:
        raise UserError(
            f"store '{store.name}' has no index '{name}'",
            where="--index",
            remedy=suggestion(name, kinds),
        )
    return name or store.capabilities.preferred_index()


def suite_of(
    name: str,
    store: type[Store],
    *,
    dataset: str,
    rows: int | None,
    indexes: Sequence[tuple[str, Mapping[str, Any]]],
    lane: str | None,
    k: int,
    repeats: int,
    experiments: Sequence[dict[str, Any]],
    variants: Sequence[str] = (),
) -> Suite:
    """The suite by which a question is answered: one store on one dataset.

    name: name of the question. indexes: kinds of index with their build parameters. variants:
        names of the store's variants, which take turns.
    """
    order = {"order": "turns"} if variants else {}
    own = [{"variant": variant} for variant in variants] or [{}] * len(indexes)
    lanes = {} if lane is None else {"lane": lane}
    plain: dict[str, Any] = {
        "name": f"{name}-{store.name}",
        "k": k,
        "repeats": repeats,
        **order,
        "datasets": [{"name": dataset, **({} if rows is None else {"rows": rows})}],
        "stores": [
            {"store": store.name, **variant, "index": index, "params": dict(params), **lanes}
            for (index, params), variant in zip(indexes, own, strict=True)
        ],
        "experiments": list(experiments),
    }
    return validate(Suite, plain, f"vectrial {name}")
