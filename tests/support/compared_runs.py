"""Runs written for these tests, with the figures one asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from run_contents import SOME_DATASET, RunContents

from vectrial.analysis.run_data import RunData
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.gate import GateResult
from vectrial.gate.model import Scope
from vectrial.model.phase import Phase, Role
from vectrial.model.trial import TrialRow
from vectrial.results.writer import TrialRecord

SECOND = 1_000_000_000
#: Of five repeats: a spread of about 1 %.
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995)
#: What the phase of a recall sweep tells of its load, and its trial does not.
ALONE = {"loop": "closed", "clients": 1}
_hours = count()


def an_hour_later() -> datetime:
    """When a run begins that follows the last one made."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=next(_hours))


@dataclass
class Made:
    """A run under construction; `trial` adds to it.

    began: repeat i was measured i minutes later.
    """

    records: list[TrialRecord] = field(default_factory=list)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    suite: str = ""
    began: datetime = field(default_factory=an_hour_later)

    def trial(
        self,
        store: str = "redis",
        experiment: str = "search",
        phase: str = "search",
        *,
        repeat: int = 1,
        metrics: Mapping[str, float | None] | None = None,
        index: Mapping[str, Any] | None = None,
        kind: str = "hnsw",
        lane: str = "native",
        params: Mapping[str, Any] | None = None,
        phase_params: Mapping[str, Any] | None = None,
        before: Sequence[Phase] = (),
        rows: int = 1000,
        status: str = "ok",
        reason: str | None = None,
        invalid: str | None = None,
        wrong: bool = False,
        **more: Any,
    ) -> None:
        """One trial of one phase, after those that came `before` it; without metrics it has no
        other. params: what the trial was asked; phase_params: what its phase alone tells, such as
        how the load was offered."""
        given = {"k": 10, "returns": "ids", **(params or {})}
        row = TrialRow(
            key=f"key-{len(self.records)}", store=store, lane=lane, dataset="words", rows=rows,
            dim=8, metric_space="cosine", experiment=experiment, index_kind=kind,
            index_params=index or {"m": 16}, params=given, repeat=repeat, seed=1,
        )  # fmt: skip
        phases = list(before)
        if metrics is not None:
            role = Role(phase) if phase in ("search", "capacity") else None
            one = Phase(phase, 0, SECOND, dict(phase_params or {}), dict(metrics), role=role)
            one.missing = {name: "it was not told" for name, v in metrics.items() if v is None}
            one.valid, one.reason = invalid is None, invalid
            phases.append(one)
        gate = [GateResult("scores_agree", not wrong, "0.31, recomputed 0.87" if wrong else "")]
        checks = [result.row(frozenset({Scope.EVERYTHING})) for result in gate]
        started = self.began + timedelta(minutes=repeat, milliseconds=len(self.records))
        more.setdefault("started_at", started if phases else None)
        self.records.append(
            TrialRecord(
                row,
                "invalid" if wrong or invalid else status,
                "gate failed" if wrong else invalid or reason,
                "1.0",
                phases=phases,
                gate=checks if phases else [],
                metrics=EXPERIMENTS[experiment].metrics if experiment in EXPERIMENTS else (),
                duration_s=1.0,
                **more,
            )
        )

    def sweep(
        self,
        store: str = "redis",
        *,
        speed: float = 1.0,
        recalls: Mapping[int, float] | None = None,
        noise: Sequence[float] = NOISE,
        **more: Any,
    ) -> Made:
        """A recall sweep, a repeat for each of `noise`: ef → recall, and 1000 / ef a second."""
        for repeat, factor in enumerate(noise, 1):
            for ef, recall in (recalls or {10: 0.88, 40: 0.96, 160: 0.995}).items():
                qps = 10_000 / ef * speed * factor
                metrics = {
                    "recall_mean": recall, "qps": qps,
                    "latency_p50": 0.9e6 / qps, "latency_p99": 3e6 / qps,
                }  # fmt: skip
                params = {"ef_search": ef, **more.get("params", {})}
                rest = {"phase_params": ALONE, "metrics": metrics, **more, "params": params}
                self.trial(store, repeat=repeat, **rest)
        return self

    def contents(self) -> RunContents:
        """The run."""
        cuts = dict.fromkeys(record.row.rows for record in self.records)
        datasets = [{**SOME_DATASET, **self.dataset, "rows": rows} for rows in cuts]
        suite = self.suite or 'name = "t"\n'
        return RunContents(self.records, datasets, self.environment, suite, "t")

    def data(self, name: str = "run") -> RunData:
        """The run in memory, as read from a folder of this name."""
        return self.contents().data(Path(name))

    def write(self, folder: Path) -> Path:
        """The run folder."""
        return self.contents().write(folder)


def verdicts(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The verdicts of a JSON-lines output."""
    found = [json.loads(line) for line in lines]
    return [one for one in found if one["kind"] == "verdict"]
