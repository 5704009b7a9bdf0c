"""Trials in a table: all of a run, and those that a figure was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vectrial.compare.groups import JUDGED
from vectrial.document.blocks import Cell, Column, Report, Row, Section, Source, Table, plain
from vectrial.model.results_schema import METRICS
from vectrial.results.foreign import understood
from vectrial.results.reader import RunReader
from vectrial.serve.trial import finite, optional, tone_of
from vectrial.util import formatting

#: How a figure came of the values that are shown.
_MADE = (
    "The figure is the median of the valid ones, or of all where none is; a count, as of errors, is"
    " their sum."
)
_READ = (
    "The figure is read off at a recall of {}: between two neighbouring settings, straight in"
    " recall and in the logarithm of the value, or of one setting alone where no other is needed."
    " In a report it lies between the medians of the settings; in a comparison each repeat is read"
    " off by itself, and the figure is their median."
)


#: Columns of json that say how a value was measured.
_PARAMS = ("index_params", "trial_params", "params")


def values_report(
    folder: Path, metric: str, phases: Sequence[int], recall: float | None = None
) -> Report | None:
    """Where a figure is from: a metric in the phases that it was made of; None where there is none.

    Args:
        recall: at which the figure was read off between these phases; None where they had it.

    Raises:
        UserError: the run cannot be read.
    """
    with understood(folder.name), RunReader(folder) as reader:
        rows = reader.rows(
            """select t.trial_id, t.store, t.experiment, t.dataset, t.rows, t.repeat, t.status,
                      t.index_params, t.params as trial_params, p.params, p.name as phase,
                      m.value, m.unit, m.valid, m.reason, r.value as recall
               from metric m join phase p using (phase_id) join trial t using (trial_id)
               left join (
                   select phase_id, first(value order by list_position(?, name)) as value
                   from metric where list_contains(?, name) and value is not null group by 1
               ) r using (phase_id)
               where m.name = ? and list_contains(?::integer[], p.phase_id)
               order by t.trial_id, p.ordinal""",
            [list(JUDGED), list(JUDGED), metric, list(phases)],
        )
    if not rows:
        return None
    columns = (
        Column("trial", "Trial"),
        Column("repeat", "Repeat"),
        Column("value", METRICS[metric].meaning if metric in METRICS else metric, rows[0]["unit"]),
        *((Column("recall", "Recall", "1"),) if recall is not None else ()),
        Column("state", "State", numeric=False),
        Column("store", "Store", numeric=False),
        Column("experiment", "Experiment", numeric=False),
        Column("params", "Parameters", numeric=False),
    )
    made = []
    for row in rows:
        parts = [
            reader.parsed(row[key], dict) for key in ("index_params", "trial_params", "params")
        ]
        value = finite(row["value"])
        shown = (
            formatting.NOTHING if value is None else formatting.figure(metric, value, row["unit"])
        )
        state = _state(row)
        made.append(
            Row(
                (
                    Cell(
                        str(row["trial_id"]), row["trial_id"], source=Source(trial=row["trial_id"])
                    ),
                    plain(row["repeat"]),
                    Cell(shown, value, note=row["reason"] or ""),
                    *((optional(row["recall"], formatting.recall),) if recall is not None else ()),
                    Cell(state, state, tone=tone_of(state)),
                    plain(row["store"]),
                    plain(f"{row['experiment']}, {row['phase']}"),
                    plain(formatting.params({k: v for part in parts for k, v in part.items()})),
                )
            )
        )
    table = Table("values", f"{metric}, as measured", tuple(columns), tuple(made))
    how = _MADE if recall is None else _READ.format(f"{recall:g}")
    lead = f"{how} Each leads to the trial that measured it."
    section = Section("values", "Where this is from", lead, (table,))
    return Report(f"{metric} of {rows[0]['store']}", "", (), (), (), (section,))


def _state(row: Mapping[str, Any]) -> str:
    """Of a value: its trial's, or of a trial that ended well, whether the value counts."""
    if row["status"] != "ok" or row["valid"]:
        return str(row["status"])
    return "no value" if row["value"] is None else "invalid"


def trials_report(
    folder: Path, wanted: Mapping[str, str]
) -> tuple[Report, Mapping[str, list[str]]]:
    """All trials as a table, of those with the column values `wanted`; and what each may be.

    Raises:
        UserError: the run cannot be read.
    """
    with understood(folder.name), RunReader(folder) as reader:
        rows = reader.rows(
            "select trial_id, store, lane, dataset, rows, experiment, index_kind, index_params,"
            " params, repeat, status, reason, duration_s from trial order by trial_id"
        )
    choices = {
        key: list(dict.fromkeys(row[key] for row in rows))
        for key in ("store", "experiment", "dataset", "status")
    }
    left = [row for row in rows if all(row[key] == value for key, value in wanted.items() if value)]
    columns = (
        Column("trial", "Trial"),
        Column("store", "Store", numeric=False),
        Column("experiment", "Experiment", numeric=False),
        Column("dataset", "Dataset", numeric=False),
        Column("rows", "Rows"),
        Column("params", "Parameters", numeric=False),
        Column("repeat", "Repeat"),
        Column("state", "State", numeric=False),
        Column("duration", "Took", "s"),
    )
    made = tuple(
        Row(
            (
                Cell(str(row["trial_id"]), row["trial_id"], source=Source(trial=row["trial_id"])),
                plain(row["store"], f"{row['store']} {row['lane']}"),
                plain(row["experiment"]),
                plain(row["dataset"]),
                plain(row["rows"], f"{row['rows']:,}"),
                plain(formatting.params({"index": row["index_kind"],
                                   **reader.parsed(row["index_params"], dict),
                                   **reader.parsed(row["params"], dict)})),
                plain(row["repeat"]),
                Cell(row["status"], row["status"], note=row["reason"] or "",
                     tone=tone_of(row["status"])),
                optional(row["duration_s"], formatting.seconds),
            )
        )
        for row in left
    )  # fmt: skip
    table = Table("trials", f"{len(left):,} of {len(rows):,} trials", columns, made)
    return Report("Trials", "", (), (), (), (Section("trials", "Trials", "", (table,)),)), choices
