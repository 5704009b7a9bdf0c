"""The process that writes until it is killed, and what is known of its changes."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from vectrial.model.capabilities import Index, NoParams
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.workload.crash import ChangeScript, CrashWriter, NewRows
from vectrial.workload.ledger import Change, ChangeKind
from vectrial.workload.python.sdk_process import Opening

#: Seconds between two changes: nothing waits so long but for a fault.
INTERVAL_S = 20.0


def test_the_first_answer_is_waited_for_and_no_other(tmp_path: Path) -> None:
    schema, index = Schema(2, Metric.L2), Index("flat", NoParams())
    changes = tuple(Change(ChangeKind.INSERT, (id_,), 1) for id_ in (0, 1))
    rows = tuple(
        NewRows(np.array(one.ids, np.int64), np.ones((1, 2), np.float32), {}) for one in changes
    )
    opening = Opening("vectrial.stores.memory:MemoryStore", tmp_path, None, schema, index, None)
    with CrashWriter(opening, create=True) as writer:
        writer.begin(ChangeScript(changes, rows, INTERVAL_S))
        (reader,) = [one for one in threading.enumerate() if one.name == "acknowledgements"]
        assert reader.daemon, "a program that gives up ends, though the writer goes on"
        writer.wait_first(2 * INTERVAL_S)
        writer.kill()
        assert [(one.change, one.error) for one in writer.outcomes()] == [(0, ""), (1, "no answer")]
