"""How long the loads took that the searches of a run are of, whatever its suite measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vectrial.analysis.analysis import Facet, facet_of, sorted_facets
from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Trial, stable
from vectrial.document.blocks import (
    Cell,
    Column,
    Row,
    Section,
    Table,
    absent_cell,
    plain,
    value_cell,
)
from vectrial.stats.intervals import spread_of
from vectrial.util import formatting

_UNTIL = "Time of the load"
_TIMES = {
    "load_s": "acknowledged",
    "flush_s": "flush",
    "build_s": "build",
    "wait_s": "wait",
    "ready_s": "ready to search",
}
_COLUMNS = (
    Column("store", "Store", numeric=False),
    *(Column.of(name, title, _UNTIL) for name, title in _TIMES.items()),
    Column("loads", "Loads"),
    Column("at", "Index", numeric=False),
)


def loads(run: RunData) -> Section | None:
    """Every load that was searched, by store and index."""
    searched = [trial for trial in run.trials if _searches(trial)]
    if not any(trial.load for trial in searched):
        return None  # of an earlier version, which recorded none
    grouped: dict[Facet, list[Trial]] = defaultdict(list)
    for trial in searched:
        grouped[facet_of(trial)].append(trial)
    tables = [_table(run, facet, trials) for facet, trials in sorted_facets(grouped)]
    return Section(
        "loads",
        "Loads behind the searches",
        "How long it took until these very rows could be searched: until the last row was "
        "acknowledged, flushed, until the index was built where that is a step, and until the "
        "final index served every row; together, ready to search.",
        tuple(tables),
    )


def _searches(trial: Trial) -> bool:
    return any(phase.value("recall_mean") is not None for phase in trial.phases)


def _table(run: RunData, facet: Facet, trials: Sequence[Trial]) -> Table:
    builds: dict[tuple[object, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        builds[trial.series, stable(trial.index_params)].append(trial)
    rows = [_row(run, members) for members in builds.values()]
    rows.sort(key=lambda row: row.cells[-3].value or 0.0)
    title = f"Loads behind the searches: {facet.title}"
    return Table(f"loads-{facet.slug}", title, _COLUMNS, tuple(rows))


def _row(run: RunData, trials: Sequence[Trial]) -> Row:
    first = trials[0]
    every = list({stable(trial.load): trial.load for trial in trials if trial.load}.values())
    why = "" if every else "not recorded: an experiment loaded the rows without timing it"
    return Row(
        (
            plain(run.labels[first.series]),
            *(_time(every, name, why) for name in _TIMES),
            plain(len(every)),
            plain(formatting.params(first.index_params)),
        ),
        series=first.series,
    )


def _time(every: Sequence[Mapping[str, float]], name: str, why: str) -> Cell:
    found = [load[name] for load in every if name in load]
    return value_cell(spread_of(found), "s") if found else absent_cell(why)
