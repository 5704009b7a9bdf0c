"""Trials in a table: all of a run, and those that a figure was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vectrial.compare.groups import JUDGED
from vectrial.document.blocks import Cell, Report, Section, Source, columns, plain_cell, table_of
from vectrial.experiments.registry import all_metrics
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader
from vectrial.util import formatting
from vectrial_web.serve.trial import finite, optional_cell, tone_of

#: Sentence on how a figure was computed from the values that are shown.
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
    """The values of a metric in the phases from which a figure was made; None if there are none.

    Args:
        recall: recall at which the figure was interpolated between these phases, or None.

    Raises:
        UserError: the run cannot be read.
    """
    with foreign_value_errors(folder.name), RunReader(folder) as reader:
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
    known = all_metrics()
    meaning = known[metric].meaning if metric in known else metric
    recalls = {} if recall is None else {"recall": ("Recall", "1")}
    heads = columns(
        trial=("Trial", ""),
        repeat=("Repeat", ""),
        value=(meaning, rows[0]["unit"]),
        **recalls,
        state="State",
        store="Store",
        experiment="Experiment",
        params="Parameters",
    )
    made = []
    for row in rows:
        value, state = finite(row["value"]), _state(row)
        shown = (
            formatting.NOTHING if value is None else formatting.figure(metric, value, row["unit"])
        )
        made.append((
            _trial(row),
            row["repeat"],
            Cell(shown, value, note=row["reason"] or ""),
            *((optional_cell(row["recall"], formatting.recall),) if recalls else ()),
            Cell(state, state, tone=tone_of(state)),
            row["store"],
            f"{row['experiment']}, {row['phase']}",
            _params(reader, row, *_PARAMS),
        ))  # fmt: skip
    table = table_of("values", f"{metric}, as measured", heads, made)
    how = _MADE if recall is None else _READ.format(f"{recall:g}")
    lead = f"{how} Each leads to the trial that measured it."
    section = Section("values", "Where this is from", lead, (table,))
    return Report(f"{metric} of {rows[0]['store']}", sections=(section,))


def _trial(row: Mapping[str, Any]) -> Cell:
    return Cell(str(row["trial_id"]), row["trial_id"], source=Source(trial=row["trial_id"]))


def _params(reader: RunReader, row: Mapping[str, Any], *keys: str, **more: Any) -> Cell:
    for key in keys:
        more |= reader.parse_value(row[key], dict)
    return plain_cell(formatting.params(more))


def _state(row: Mapping[str, Any]) -> str:
    """The state of a value: its trial's status; if the trial is ok, whether the value counts."""
    if row["status"] != "ok" or row["valid"]:
        return str(row["status"])
    return "no value" if row["value"] is None else "invalid"


def trials_report(
    folder: Path, filters: Mapping[str, str]
) -> tuple[Report, Mapping[str, list[str]]]:
    """A table of the trials with the column values `filters`, and each column's possible values.

    Raises:
        UserError: the run cannot be read.
    """
    with foreign_value_errors(folder.name), RunReader(folder) as reader:
        rows = reader.rows(
            "select trial_id, store, lane, dataset, rows, experiment, index_kind, index_params,"
            " params, repeat, status, reason, duration_s from trial order by trial_id"
        )
    choices = {
        key: list(dict.fromkeys(row[key] for row in rows))
        for key in ("store", "experiment", "dataset", "status")
    }
    left = [
        row for row in rows if all(row[key] == value for key, value in filters.items() if value)
    ]
    heads = columns(
        trial=("Trial", ""),
        store="Store",
        experiment="Experiment",
        dataset="Dataset",
        rows=("Rows", ""),
        params="Parameters",
        repeat=("Repeat", ""),
        state="State",
        duration=("Took", "s"),
    )
    made = (
        (
            _trial(row),
            plain_cell(row["store"], f"{row['store']} {row['lane']}"),
            row["experiment"],
            row["dataset"],
            row["rows"],
            _params(reader, row, "index_params", "params", index=row["index_kind"]),
            row["repeat"],
            Cell(row["status"], row["status"], note=row["reason"] or "",
                 tone=tone_of(row["status"])),
            optional_cell(row["duration_s"], formatting.seconds),
        )
        for row in left
    )  # fmt: skip
    table = table_of("trials", f"{len(left):,} of {len(rows):,} trials", heads, made)
    return Report("Trials", sections=(Section("trials", "Trials", "", (table,)),)), choices
