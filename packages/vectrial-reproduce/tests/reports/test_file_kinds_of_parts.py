"""What a reproduction says of bytes on disk by kind of file, from invented figures."""

from __future__ import annotations

import capacity_runs as made
from synthetic_runs import ROWS, SECOND

from vectrial.experiments.storage.report import KINDS
from vectrial.model.phase import Phase
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.page_tables import further_results


def test_stores_that_tell_kinds_apart_have_a_row() -> None:
    kinds = {"disk_rows_bytes": 3e6, "disk_index_bytes": 2e6, "disk_log_bytes": -1e6}
    told, untold = (Phase("settled", 0, SECOND, {"rows": ROWS}) for _ in range(2))
    sizes = {"raw_bytes": 2e6, "disk_bytes": 5e6, "disk_baseline_bytes": 1e6, "disk_ratio": 2.0}
    told.metrics = {**sizes, **kinds}
    untold.metrics = {**sizes}
    untold.missing = dict.fromkeys(KINDS, "none of its files hold this alone")
    trials = [
        made.trial(store, phase, experiment="storage")
        for store, phase in (("weaviate", told), ("faiss", untold))
    ]
    held = further_results({"own": MeasuredPart(made.run_of(trials), "words", ROWS)})
    (table,) = held["storage"]
    (row,) = table.rows  # type: ignore[union-attr]
    assert row.cells[0].text == "weaviate"
    assert row.cells[5].value == 2.0
    assert row.series is None
