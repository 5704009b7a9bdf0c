"""The plan of a suite: jobs of trials with stable keys.

A *job* is the task of one measuring process: one store with one index on the first `rows` of one
dataset, once. It loads and builds once and then measures all its trials. Trials that a store does
not support are refused here, before anything is measured.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.registry import EXPERIMENTS, replacement
from vectrial.model.capabilities import Durability, Index
from vectrial.model.errors import Unsupported, UserError
from vectrial.model.existing import Existing
from vectrial.model.inputs import product_size
from vectrial.model.lane import Lane, lanes_of, python_lane, refuse_lane, writes_natively
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import State
from vectrial.model.refusals import refuse, refuse_k, refuse_nodes, refuse_rows
from vectrial.model.results_schema import SCHEMA_VERSION
from vectrial.model.store import Store
from vectrial.model.trial import NODES, TrialRow
from vectrial.plan import model
from vectrial.plan.checks import (
    caveats_of,
    check_existing_point,
    check_existing_supported,
    check_restrictions,
    check_search_parameters,
    with_indexes,
)
from vectrial.plan.estimate import load_s, warm_up_of
from vectrial.plan.model import DatasetShape, Job, Plan, PlannedTrial, Refusal, turns_s
from vectrial.suite.model import DatasetRef, ExperimentRef, StoreRef, Suite
from vectrial.suite.validation import validate
from vectrial.util.suggest import suggestion

#: Maximum number of builds per entry of a suite's stores, and of trials per suite.
MOST_BUILDS = 1_000
MOST_TRIALS = 100_000


def make_plan(
    suite: Suite,
    *,
    where: str,
    load_store: Callable[[str], type[Store]],
    shape_of: Callable[[DatasetRef], DatasetShape],
    known_stores: Iterable[str],
) -> Plan:
    """Expand a suite.

    Args:
        where: the suite's file name, for messages.
        load_store: name → store class; raises UserError for an unknown name.
        shape_of: a dataset of the suite → its shape; raises UserError for an unknown dataset, and
            if it has fewer rows or queries than requested.
        known_stores: every store there is, used or not: their search parameters are the ones an
            experiment may name.

    Raises:
        UserError: an unknown name, or a parameter that no store has.
    """
    experiments = [
        (ref, _experiment(ref, f"{where}: experiments[{i}]"))
        for i, ref in enumerate(suite.experiments)
    ]
    check_restrictions(suite, where)
    suite = with_indexes(suite, where, load_store)
    check_search_parameters(suite, where, load_store, known_stores)
    jobs: dict[tuple[Any, ...], tuple[Job, list[PlannedTrial]]] = {}
    refusals: list[Refusal] = []
    measured: set[str] = set()
    count = 0
    for dataset in suite.datasets:
        shape = shape_of(dataset)
        if suite.k > shape.rows:
            raise UserError(
                f"dataset '{shape.name}' has {shape.rows:,} rows, fewer than k = {suite.k:,}",
                where=where,
            )
        for i, item in _items(suite, shape, experiments, where, load_store):
            planned, refused = _points(item)
            if item.experiment.shares_points:
                planned = [trial for trial in planned if model.add_trial(measured, i, trial)]
            refusals += refused
            count += len(planned)
            _check_number(count, where)
            for trial in planned:
                rows, repeat = trial.row.rows, trial.row.repeat
                limits = item.experiment.limits_at(trial.point)
                # What one trial left in a server would count against the limits of the next.
                alone = "" if limits is None else trial.row.key
                key = (repeat, shape.name, rows, i, item.nodes, repr(item.index), alone)
                job = Job(
                    item.store,
                    item.index,
                    shape.name,
                    rows,
                    dataset.queries,
                    repeat,
                    (),
                    item.durability,
                    dataset.metadata,
                    item.nodes,
                    limits,
                    item.existing,
                    load_s(item.store, item.index, rows, shape.dim),
                    warm_up_of(item.store, suite.warm_up_s),
                    shape.dim,
                    item.ref.variant or "",
                )
                jobs.setdefault(key, (job, []))[1].append(trial)
    apart = model.distinct_rows([trial for _, trials in jobs.values() for trial in trials])
    ordered = (
        replace(
            job,
            trials=tuple(
                replace(t, row=apart.get(t.row.key, t.row)) for t in _order_trials(trials)
            ),
        )
        for _, (job, trials) in sorted(jobs.items(), key=lambda entry: entry[0][:4])
    )
    plan = Plan(suite, _order_jobs(suite, tuple(ordered)), tuple(refusals))
    _check_keys(plan, where)
    return plan


@dataclass(frozen=True)
class PlanItem:
    """One experiment on one store with one index on one dataset, through one lane, with a number of
    nodes."""

    suite: Suite
    shape: DatasetShape
    ref: StoreRef
    store: type[Store]
    index: Index
    experiment: Experiment
    lane: Lane
    nodes: int = 1

    @property
    def target(self) -> Target:
        """The item converted to what an experiment checks."""
        on_hosts = self.suite.hosts is not None
        return Target(self.store, self.index, self.shape.data, self.lane, self.nodes, on_hosts)

    @property
    def existing(self) -> Existing | None:
        """The collection that is measured unchanged; None if a new one is made and loaded."""
        return None if self.ref.existing is None else self.ref.existing.existing

    @property
    def durability(self) -> Durability | None:
        """Durability of acknowledged writes; None if the store promises nothing.

        Raises:
            Unsupported: the store cannot promise what the suite asks for.
        """
        if self.existing is not None:  # nothing is written
            return None
        can = self.store.capabilities.durability
        chosen = self.ref.durability or self.suite.durability
        if chosen is None or chosen == "default":
            return next(iter(can), None)
        if chosen not in can:
            have = " or ".join(f'"{one}"' for one in (*can, "default"))
            raise Unsupported(
                f"{self.store.name} has no writes of durability '{chosen}'",
                remedy=f"durability = {have}",
            )
        return chosen


def _items(
    suite: Suite,
    shape: DatasetShape,
    experiments: Sequence[tuple[ExperimentRef, Experiment]],
    where: str,
    load_store: Callable[[str], type[Store]],
) -> Iterator[tuple[int, PlanItem]]:
    """Items of a dataset, each with the position of its store in the suite."""
    for i, ref in enumerate(suite.stores):
        if ref.datasets is not None and shape.name not in ref.datasets:
            continue
        store = load_store(ref.store)
        here = shape if ref.existing is None else shape.without_own_ids()
        resolved = [(of, experiment.resolve(here.data)) for of, experiment in experiments]
        if ref.provider is not None and store.server is None:
            raise UserError(
                f"'{store.name}' is a library: it has no server that a provider could run",
                where=f"{where}: stores[{i}].provider",
                remedy="leave it out",
            )
        for index in _indexes(store, ref, f"{where}: stores[{i}]"):
            for experiment_ref, experiment in resolved:
                if not _is_allowed(experiment_ref, ref):
                    continue
                for lane, nodes in itertools.product(_lanes(store, ref, experiment), ref.sizes):
                    yield i, PlanItem(suite, here, ref, store, index, experiment, lane, nodes)


def _is_allowed(ref: ExperimentRef, store: StoreRef) -> bool:
    """False if the experiment or the store is restricted to others."""
    asks = store.experiments is None or ref.experiment in store.experiments
    return asks and (ref.stores is None or store.is_among(ref.stores))


def _experiment(ref: ExperimentRef, where: str) -> Experiment:
    if ref.experiment not in EXPERIMENTS:
        raise UserError(
            f"'{ref.experiment}' is not an experiment",
            where=f"{where}.experiment",
            remedy=replacement(ref.experiment) or suggestion(ref.experiment, EXPERIMENTS),
        )
    return validate(EXPERIMENTS[ref.experiment], ref.parameters(), where)


def _indexes(store: type[Store], ref: StoreRef, where: str) -> Iterator[Index]:
    """Every combination of the grid, validated; unknown parameters are named."""
    assert ref.index is not None, "`with_indexes` named it"
    kind = store.capabilities.indexes[ref.index]
    axes = {name: v if isinstance(v, list) else [v] for name, v in ref.params.items()}
    for name, values in axes.items():
        if not values:
            raise UserError("the list is empty", where=f"{where}.params.{name}")
    if (size := product_size(list(axes.values()))) > MOST_BUILDS:
        raise UserError(
            f"the lists make {size:,} builds, at most {MOST_BUILDS:,} are measured",
            where=f"{where}.params",
            remedy="shorten them, or let `vectrial tune` choose among them",
        )
    for combination in itertools.product(*axes.values()):
        params = dict(zip(axes, combination, strict=True))
        yield Index(ref.index, validate(kind.build, params, f"{where}.params"))


def _lanes(store: type[Store], ref: StoreRef, experiment: Experiment) -> list[Lane]:
    """The lanes of an experiment: those of the suite, if it has a choice."""
    lanes = ref.lane if isinstance(ref.lane, list) else [ref.lane or lanes_of(store)[0]]
    if not experiment.sends_requests:
        return lanes[:1] if lanes[0] in lanes_of(store) else [python_lane(store)]
    if experiment.supported_lanes() is None:
        return [python_lane(store)]
    if ref.lane is None and experiment.writes() and not writes_natively(store):
        return [python_lane(store)]
    return list(dict.fromkeys(lanes))


def _points(item: PlanItem) -> tuple[list[PlannedTrial], list[Refusal]]:
    """The trials of an item, and those that the store does not support."""
    target = item.target
    shape, experiment = item.shape, item.experiment
    try:
        refuse(item.store, target.data.schema, item.index)
        refuse_k(item.store, item.suite.k)
        refuse_rows(item.store, item.index, target.data.rows)
        refuse_nodes(item.store, item.index, item.nodes)
        durability = item.durability
        refuse_lane(item.store, item.lane)
        _check_lane(experiment, item.lane)
        _check_client_machines(item)
        if item.existing is not None:
            check_existing_supported(item.store, item.existing, shape, item.lane, item.nodes)
        points = [target.point(point) for point in experiment.points(target)]
    except Unsupported as error:
        return [], [Refusal(_trial_row(item, None, _identity(item, None, {}, 1)), str(error))]
    able, refused = [], []
    for point in points:
        try:
            experiment.check_point(target, point)
            if item.existing is not None:
                check_existing_point(item.store, experiment, point)
        except Unsupported as error:
            row = _trial_row(item, durability, _identity(item, durability, point, 1))
            refused.append(Refusal(row, str(error)))
        else:
            able.append(point)
    _check_number(len(able) * item.suite.repeats, experiment.name)
    repeats = range(1, item.suite.repeats + 1)
    return [
        _planned_trial(item, durability, one, repeat) for repeat in repeats for one in able
    ], refused


def _planned_trial(
    item: PlanItem, durability: Durability | None, point: OperatingPoint, repeat: int
) -> PlannedTrial:
    identity = _identity(item, durability, point, repeat)
    return PlannedTrial(
        _trial_row(item, durability, identity),
        item.experiment,
        point,
        _own_s(item, point),
        item.experiment.loads_at(point),
        identity,
        _takes_turns(item, point),
    )


def _check_lane(experiment: Experiment, lane: Lane) -> None:
    lanes = experiment.supported_lanes()
    if lanes is not None and lane not in lanes:
        able = " or ".join(sorted(lanes))
        raise Unsupported(
            f"{experiment.name} is measured through the lane {able}, not through {lane}"
        )


def _check_client_machines(item: PlanItem) -> None:
    if not item.suite.placement.client_machines:
        return
    if not item.experiment.from_client_machines:
        raise Unsupported(f"{item.experiment.name} is not measured from client machines")
    if item.lane is not Lane.NATIVE:
        raise Unsupported(
            f"client machines send what the native lane sends, not what goes through {item.lane}"
        )


def _trial_row(
    item: PlanItem, durability: Durability | None, defining: Mapping[str, Any]
) -> TrialRow:
    """The row of a trial with this identity."""
    suite, shape, store, experiment = item.suite, item.shape, item.store, item.experiment
    caveats = store.capabilities.caveats
    if item.existing is not None:
        caveats = (*caveats_of(item.existing, shape), *caveats)
    elif not store.capabilities.for_index(item.index.kind).persistent:
        caveats = ("nothing is kept on disk: a load includes no flush", *caveats)
    if warm_up_s := defining.get("warm_up_s"):
        caveats = (*caveats, f"searched for {warm_up_s:g} s before anything counts")
    params = dict(defining["point"])
    if durability is not None:
        how = store.capabilities.durability[durability]
        caveats = (*caveats, f"durability of writes: {durability}: {how}")
        if experiment.writes():
            params["durability"] = str(durability)
    return TrialRow(
        key=model.key_of(defining),
        store=item.ref.name,
        lane=str(item.lane),
        dataset=shape.name,
        rows=defining["rows"],
        dim=shape.dim,
        metric_space=str(shape.metric),
        experiment=experiment.name,
        index_kind=item.index.kind,
        index_params=defining["index_params"],
        params={"k": suite.k, **params},
        repeat=defining["repeat"],
        seed=suite.seed,
        differences=caveats,
        environment_name=None if store.environment is None else store.environment.name,
    )


def _identity(
    item: PlanItem, durability: Durability | None, point: Mapping[str, Any], repeat: int
) -> dict[str, Any]:
    """Everything that identifies a trial, as hashed in its key. A field that was added after runs
    existed is left out if it has its default, so that these runs can be resumed."""
    suite, shape, index = item.suite, item.shape, item.index
    # Of a collection that somebody else made, what is not known of its build is not claimed.
    index_params = index.params.model_dump(mode="json", exclude_unset=item.existing is not None)
    if item.nodes > 1:
        index_params[NODES] = item.nodes
    defining = {
        "schema": SCHEMA_VERSION,
        "store": item.ref.name,
        "index": index.kind,
        "index_params": index_params,
        "dataset": shape.name,
        "rows": int(point.get("rows", shape.rows)),
        "experiment": item.experiment.name,
        "settings": item.experiment.settings(),
        "point": {name: value for name, value in point.items() if name != "rows"},
        "k": suite.k,
        "batch_rows": suite.batch_rows,
        "durability": durability,
        "lane": str(item.lane),
        "seed": suite.seed,
        "repeat": repeat,
    }
    if item.lane is not Lane.EMBEDDED:
        defining["placement"] = suite.placement.facts()
        defining["provider"] = item.ref.provider
        if suite.hosts is not None:
            defining["hosts"] = suite.hosts.model_dump(mode="json")
    if not shape.metadata:
        defining["metadata"] = False
    if suite.repeat_queries:
        defining["repeat_queries"] = True
    if _takes_turns(item, point):
        defining["in_turns"] = True
    if warm_up_s := warm_up_of(item.store, suite.warm_up_s):
        defining["warm_up_s"] = warm_up_s
    if item.existing is not None:
        added = ("where",)
        about = asdict(item.existing)
        defining["existing"] = {n: v for n, v in about.items() if v or n not in added}
    return defining


def _own_s(item: PlanItem, point: Mapping[str, Any]) -> float:
    """Seconds of a trial beside its loads."""
    experiment, shape = item.experiment, item.shape
    if _takes_turns(item, point):
        return turns_s(experiment.turn_time(point)) * experiment.turns_at(point)
    return experiment.estimate_s(int(point.get("rows", shape.rows)), shape.dim, point)


def _takes_turns(item: PlanItem, point: Mapping[str, Any]) -> bool:
    """True if the phases of a trial take turns with those of other stores: searches of loaded rows,
    by clients of this machine, in processes without limits of their own."""
    experiment = item.experiment
    reads = experiment.starts_from is State.LOADED and not experiment.mutates
    return (
        item.suite.order == "turns"
        and reads
        and not experiment.before_gate
        and experiment.limits_at(point) is None
        and not item.suite.placement.client_machines
        and experiment.takes_turns(point, item.lane)
    )


def _order_jobs(suite: Suite, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Repeat by repeat; unless in the suite's order, every other repeat is reversed (A B, B A)."""
    if suite.order == "suite":
        return jobs
    ordered: list[Job] = []
    for repeat, group in itertools.groupby(jobs, key=lambda job: job.repeat):
        turn = list(group)
        ordered += turn if repeat % 2 else turn[::-1]
    return tuple(ordered)


def _order_trials(trials: Iterable[PlannedTrial]) -> list[PlannedTrial]:
    """The trials in order: loads first, then trials before the gate, then searches, with those in
    turns after others; last, trials that change rows."""
    return sorted(
        trials,
        key=lambda t: (
            t.experiment.starts_from is not State.EMPTY,
            not t.experiment.before_gate,
            t.experiment.mutates,
            t.in_turns,
        ),
    )


def _check_number(trials: int, where: str) -> None:
    if trials > MOST_TRIALS:
        raise UserError(
            f"the suite asks for more than {MOST_TRIALS:,} trials",
            where=where,
            remedy="shorten its lists, or make several suites of it",
        )


def _check_keys(plan: Plan, where: str) -> None:
    seen: set[str] = set()
    for trial in plan.trials:
        if trial.row.key in seen:
            raise UserError(
                f"the same trial is asked for twice: {trial.row.store} {trial.row.experiment}"
                f" {json.dumps(dict(trial.row.params))}",
                where=where,
                remedy="remove the second store or experiment entry that asks for it; several"
                " lanes of one store go into one entry, as a list",
            )
        seen.add(trial.row.key)
