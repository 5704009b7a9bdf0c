"""Matrix of experiments and stores, as the planner allows them; and the experiments that are not
written yet, from the reports' descriptions.

`python -m vectrial_reproduce.reports.matrix` prints docs/matrix.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.labels import ANOMALOUS, CLASS
from vectrial.model.lane import Lane, lanes_of
from vectrial.model.metric import Metric
from vectrial.model.placement import Hosts
from vectrial.model.schema import Field, FieldType
from vectrial.model.store import Store
from vectrial.plan.model import DatasetShape
from vectrial.plan.plan import make_plan
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, ExperimentRef, StoreRef, Suite
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.model import Reproduction

#: Parameters that an experiment requires.
_NEEDED: Mapping[str, Mapping[str, Any]] = {}
_ROWS, _DIM = 10_000, 64
#: Number of nodes for experiments that need a cluster.
_NODES = 3


@dataclass(frozen=True)
class Support:
    """The support of one store for one experiment.

    kinds: kinds of index that it works with; empty: it does not work. reason: why it does not work
        with the others, or through the store's default lane. whole: it works with every kind. lane:
        the lane through which it works, if not the default one.
    """

    kinds: tuple[str, ...]
    reason: str
    whole: bool
    lane: Lane | None = None


def support(store: type[Store], experiment: str) -> Support:
    """The planner's decision for every kind of index of the store, through its default lane, or
    through another if the default lane supports none."""
    usual = _support(store, experiment, None)
    if usual.kinds:
        return usual
    for lane in lanes_of(store)[1:]:
        found = _support(store, experiment, lane)
        if found.kinds:
            why = "; ".join(filter(None, (usual.reason, found.reason)))
            return Support(found.kinds, why, found.whole, lane)
    return usual


def _support(store: type[Store], experiment: str, lane: Lane | None) -> Support:
    every = tuple(store.capabilities.indexes)
    reasons = {kind: _refusal(store, kind, experiment, lane) for kind in every}
    kinds = tuple(kind for kind in every if reasons[kind] is None)
    said = dict.fromkeys(reason for reason in reasons.values() if reason is not None)
    return Support(kinds, "; ".join(said), len(kinds) == len(every))


def _refusal(store: type[Store], kind: str, experiment: str, lane: Lane | None) -> str | None:
    """Reason why the planner refuses, or None. lane: if None, the store's default lane."""
    can = store.capabilities.for_index(kind)
    metric = next(metric for metric in Metric if metric in can.scores)
    fields = tuple(Field(str(t), t) for t in FieldType if t in can.field_types)
    if FieldType.STRING in can.field_types:  # the class of each row, for what needs one
        fields = (*fields, Field(CLASS, FieldType.STRING))
    shape = DatasetShape(
        "rows", _ROWS, _DIM, metric, fields, query_fields=frozenset({CLASS, ANOMALOUS})
    )
    nodes = _NODES if can.clusters else 1
    settings = {"experiment": experiment, **_NEEDED.get(experiment, {})}
    suite = Suite(
        name="matrix",
        repeats=1,
        datasets=[DatasetRef(name=shape.name)],
        stores=[StoreRef(store=store.name, index=kind, lane=lane, nodes=nodes)],
        hosts=Hosts(),
        experiments=[ExperimentRef.model_validate(settings)],
    )
    plan = make_plan(
        suite,
        where="matrix",
        load_store=lambda _: store,
        shape_of=lambda _: shape,
        known_stores=(),
    )
    if plan.jobs:
        return None
    return "; ".join(dict.fromkeys(refusal.reason for refusal in plan.refusals))


def planned_experiments(reports: Iterable[Reproduction] | None = None) -> dict[str, str]:
    """Experiments that the reports (by default all of them) need and that are not written yet, each
    with its explanation."""
    if reports is None:
        reports = REPRODUCTIONS.values()
    wanting = [one for report in reports for one in report.not_yet.values()]
    return {
        one.experiment: one.why
        for one in wanting
        if one.experiment and one.experiment not in EXPERIMENTS
    }


def markdown() -> str:
    """The page: a table of stores by experiments, and the reasons below it."""
    names = registry.names()
    later = planned_experiments()
    missing = _missing(names)
    notes: list[str] = []
    out = [
        "# What works on what",
        "",
        "Every experiment on every store, as the planner decides it from what each store declares;"
        " the conformance suite proves these declarations. Written by `make matrix`.",
        "",
        "✓ works with the experiment's defaults; ✓ with a number: with some kinds of index, or"
        " through another lane than the store's default; — not supported by the store, and why;"
        " · not yet" + "".join(f"; `{name}`: {why}" for name, why in later.items()) + ".",
        "",
        "| store | " + " | ".join(f"`{name}`" for name in (*EXPERIMENTS, *later)) + " |",
        "| --- |" + " :-: |" * (len(EXPERIMENTS) + len(later)),
    ]
    for name in names:
        store = registry.load(name)
        cells = [_cell(store, support(store, one), notes) for one in EXPERIMENTS]
        out.append(_line(name, [*cells, *("·" for _ in later)]))
    out += [_line(name, ["·"] * (len(EXPERIMENTS) + len(later))) for name in missing]
    out += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    out += [
        "",
        "`crud` and `condition` leave out single operations that a store does not have, and say so"
        " in their results. `vectrial stores STORE` shows what a store declares.",
    ]
    return "\n".join(out) + "\n"


def _missing(names: Iterable[str]) -> list[str]:
    """Stores that the reports name and that are not available here."""
    named = {a.store for report in REPRODUCTIONS.values() for p in report.parts for a in p.arms}
    return sorted(named - set(names))


def _cell(store: type[Store], found: Support, notes: list[str]) -> str:
    if found.whole and found.lane is None:
        return "✓"
    reason = found.reason.removeprefix(f"{store.name}:").replace(f"{store.name} ", "", 1).strip()
    only = [] if found.whole or not found.kinds else [f"with {', '.join(found.kinds)}"]
    through = [] if found.lane is None else [f"through the lane {found.lane}"]
    note = "; ".join([*only, *through, reason])
    if note not in notes:
        notes.append(note)
    return f"{'✓' if found.kinds else '—'} <sup>{notes.index(note) + 1}</sup>"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    print(markdown(), end="")
