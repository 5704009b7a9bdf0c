"""The checks of the gate: what each demands, and what its failure invalidates.

They are defined only here; results and reports take them from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vectrial.model.trial import Scope


@dataclass(frozen=True)
class Check:
    """One check. demands: a sentence for the reader of a report, including the tolerance."""

    name: str
    invalidates: Scope
    demands: str


_ALL = (
    Check("row_count", Scope.EVERYTHING, "The store counts as many rows as were loaded."),
    Check(
        "ids_round_trip",
        Scope.EVERYTHING,
        "Rows read by id are those that were written: metadata, floats up to their last bits; "
        "vectors up to float32, under cosine their direction, resembling where compressed.",
    ),
    Check(
        "nodes_agree",
        Scope.EVERYTHING,
        "Asked each by itself, every node of a cluster has the same version, counts as many rows "
        "as were loaded, has those that are read by id, and answers with k rows.",
    ),
    Check(
        "index_is_asked",
        Scope.EVERYTHING,
        "Of a server that describes its index: it is of the kind, and has the build parameters, "
        "that were asked for.",
    ),
    Check(
        "answer_length",
        Scope.EVERYTHING,
        "An answer has k rows, or all there are; of an approximate index, all but those that its "
        "recall floor lets it lose.",
    ),
    Check("no_duplicate_ids", Scope.EVERYTHING, "No answer names a row twice."),
    Check("known_ids", Scope.EVERYTHING, "Every row of an answer is one that was loaded."),
    Check("best_first", Scope.EVERYTHING, "By the store's own scores the best row comes first."),
    Check(
        "scores_agree",
        Scope.EVERYTHING,
        "Scores are those recomputed in float64, up to float32; estimates from compressed vectors "
        "correlate (0.8, unless all are nearly one number) and have the right size (median within "
        "half).",
    ),
    Check(
        "recall",
        Scope.EVERYTHING,
        "Of the loaded rows that are returned at the generous setting, as many are true neighbours "
        "as the recall floor of an exact index asks (at least 0.999), of another a tenth of its "
        "floor: data without structure give a graph nothing to follow. Of a store that declares "
        "coarser distances (L2 of products, 1 - q·x), rows within their rounding count as one.",
    ),
    Check(
        "all_rows_kept",
        Scope.EVERYTHING,
        "Every row that was loaded is there: all ids where the store is read out in a second, "
        "else of up to 3,000 rows drawn at random, read by id in about a second.",
    ),
    Check(
        "rows_found_by_search",
        Scope.EVERYTHING,
        "Of up to 3,000 rows drawn at random, searched for at the generous setting in 1.5 s, each "
        "is among the nearest to its own vector, unless as many others are as near. An exact index "
        "misses none; another as many as its recall floor leaves, on data without structure as in "
        "recall, and three standard deviations of the sample.",
    ),
    Check(
        "metric_is_asked",
        Scope.EVERYTHING,
        "Answers fit the metric that was asked for better than any other.",
    ),
    Check(
        "recall_floor",
        Scope.EVERYTHING,
        "The same on clustered rows, which have structure: at least the index's whole floor.",
    ),
    Check("filters_hold", Scope.FILTERS, "Every row of a filtered answer holds the filter."),
    Check(
        "filters_complete",
        Scope.FILTERS,
        "A filtered answer has k rows, or all that hold the filter.",
    ),
    Check(
        "filtered_recall",
        Scope.FILTERS,
        "Of the rows returned that hold their filter, as many are true neighbours under it as the "
        "index's floor asks, on the loaded rows as in recall.",
    ),
    Check(
        "finds_hold",
        Scope.FINDS,
        "Rows found by a condition hold it, each once, and are all of them up to the limit.",
    ),
    Check(
        "updated_rows_found",
        Scope.CHANGES,
        "An updated row is found at its new vector and no longer at its old, reads as new, and "
        "changes no count. A graph can lose sight of a row: as many as its recall floor allows "
        "(one in ten at 0.9) may be missed at their new place, none may be seen at the old.",
    ),
    Check(
        "deleted_rows_gone",
        Scope.CHANGES,
        "A deleted row is in no answer, no get and no count, nor after a flush.",
    ),
)

#: Every check by name, in the order of a report.
CHECKS: Mapping[str, Check] = {check.name: check for check in _ALL}
