"""The machine of a run, and the share of it that a store had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.model.trial import Series


def cores(run: RunData) -> list[int]:
    """Processors of the machine that the measuring process could use."""
    cpu = _facts(run).get("cpu", {})
    return list(cpu.get("affinity") or range(cpu.get("logical") or 0))


def memory_bytes(run: RunData) -> int | None:
    """Memory of the machine, or None if the run does not say."""
    found = _facts(run).get("memory", {}).get("total_bytes")
    return int(found) if found else None


def server(run: RunData, series: Series) -> Mapping[str, Any]:
    """Settings of a store's server; empty for a library."""
    own = (trial.server for trial in run.trials if trial.series == series)
    return next((facts for facts in own if facts is not None), {})


def processors(run: RunData, series: Series) -> float | None:
    """Processors available to a store's server or process: all of the machine's, unless the suite
    says otherwise, and no more than its limit on processor time; None if the server runs elsewhere.
    """
    facts = server(run, series)
    if facts.get("provider") == "external":
        return None
    known = (len(facts.get("cores") or cores(run)), facts.get("cpus"))
    return min((float(count) for count in known if count), default=None)


def _facts(run: RunData) -> Mapping[str, Any]:
    environment = run.run["environment"]
    return environment if isinstance(environment, dict) else {}
