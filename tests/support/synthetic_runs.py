"""A run as a suite would leave it, with invented figures: every case a report must survive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from run_contents import RunContents

from vectrial._engine import Recorder
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.gate import GateResult
from vectrial.model.phase import Phase, Role
from vectrial.model.trial import TrialRow
from vectrial.results.writer import TrialRecord

SECOND = 1_000_000_000
SCRIPT = "<script>alert('store')</script>"
LONG = "a-store-with-a-name-that-is-much-longer-than-anything-a-table-column-wants-to-hold"
ROWS = 50_000
#: store → (speed, index kind, gate passes, recall bonus)
STORES: dict[str, tuple[float, str, bool]] = {
    "faiss": (1.0, "hnsw", True),
    "hnswlib": (1.08, "hnsw", True),
    "usearch": (1.3, "hnsw", True),
    "qdrant-edge": (0.5, "hnsw", True),
    "chroma": (0.16, "hnsw", True),
    "broken": (3.0, "hnsw", False),
    SCRIPT: (0.3, "hnsw", True),
    LONG: (0.22, "hnsw", True),
}
EXACT = {"memory": 0.02, "sqlite": 0.004}


def synthetic_run(
    *,
    repeats: int = 3,
    stores: dict[str, tuple[float, str, bool]] | None = None,
    datasets: tuple[str, ...] = ("glove-words-100",),
    builds: tuple[tuple[int, int], ...] = ((16, 128), (32, 256)),
    efs: tuple[int, ...] = (16, 32, 64, 128, 256),
    only_sweep: bool = False,
) -> RunContents:
    """A run of these stores (by default all of `STORES`) on each dataset."""
    stores = STORES if stores is None else stores
    rng = np.random.default_rng(7)
    trials: list[TrialRecord] = []
    for name in datasets:
        made = _Trials(name, repeats, rng)
        for store, (speed, kind, right) in stores.items():
            for m, efc in builds:
                index = {"m": m, "ef_construction": efc}
                trials += made.store(store, speed, kind, right, index, efs, only_sweep=only_sweep)
        if not only_sweep:
            for store, speed in EXACT.items():
                trials += made.store(store, speed, "flat", True, {}, (0,))
            trials += made.misfits()
    facts = [dataset_facts(name) for name in datasets]
    return RunContents(trials, facts, ENVIRONMENT, suite_name="demo")


def write_run(folder: Path, **options: Any) -> Path:
    """Write a `synthetic_run` with these options into `folder`, and return that."""
    return synthetic_run(**options).write(folder)


ENVIRONMENT: dict[str, Any] = {
    "cpu": {"model": "AMD EPYC 7B13", "logical": 2, "flags": ["avx2", "fma"]},
    "memory_bytes": 25_769_803_776,
    "kernel": "Linux 6.1.0-28-amd64",
    "clock_source": "tsc",
    "libraries": {"faiss-cpu": "1.15.1", "numpy": "2.4.6"},
    "git": {"revision": "0123456789abcdef"},
}


def dataset_facts(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "fingerprint": "9f86d081884c7d659a2feaa0c55ad015",
        "rows": ROWS,
        "dim": 100,
        "queries": 1000,
        "metric_space": "cosine",
        "raw_bytes": ROWS * 400,
        "metadata_bytes": 1_200_000,
        "source": "package glove-words 1.0 & <b>friends</b>",
        "licence": "PDDL-1.0",
        "stand_in_for": "glove-100-angular",
        "facts": '{"duplicates": 12, "repeated_queries": 434, "norm": {"min": 0.98, "max": 1.02}}',
    }


class _Trials:
    """Makes the trials of one dataset."""

    def __init__(self, dataset: str, repeats: int, rng: np.random.Generator) -> None:
        self.dataset, self.repeats, self.rng = dataset, repeats, rng
        self.made = 0

    def store(
        self,
        store: str,
        speed: float,
        kind: str,
        right: bool,
        index: dict[str, Any],
        efs: tuple[int, ...],
        only_sweep: bool = False,
    ) -> Iterator[TrialRecord]:
        """Every experiment on one store and index."""
        for repeat in range(self.repeats):
            for ef in efs:
                point = {"ef_search": ef} if ef else {}
                phase = self._search(speed, index, ef, clients=1, right=right)
                yield self._trial(store, kind, "search", index, point, repeat, [phase], right)
            if only_sweep or index.get("m") == 32:
                continue
            for rows in (ROWS // 4, ROWS // 2, ROWS):
                phases = self._ingest(speed, rows, store)
                yield self._trial(
                    store, kind, "ingest", index, {"rows": rows}, repeat, phases, right
                )
            for clients in (1, 2, 4, 8):
                phase = self._search(speed, index, 64 if index else 0, clients=clients, right=right)
                if clients == 8 and store == "usearch":
                    phase.valid = False
                    phase.reason = "client-bound: the client used 97 % of its cores"
                point = {"clients": clients, "ef_search": 64}
                yield self._trial(store, kind, "search", index, point, repeat, [phase], right)
            phases = self._crud(speed, store)
            yield self._trial(store, kind, "crud", index, {}, repeat, phases, right)
            phases = [self._footprint(speed, store)]
            yield self._trial(store, kind, "storage", index, {}, repeat, phases, right)

    def misfits(self) -> Iterator[TrialRecord]:
        """A skipped store, a failed one, an experiment the report has never heard of."""
        yield self._trial(
            "annlite", "hnsw", "search", {"m": 16}, {}, 0, [],
            status="skipped", reason="not installed: pip install 'vectrial[annlite]'",
        )  # fmt: skip
        yield self._trial(
            "lancedb", "ivf_pq", "search", {"nlist": 64}, {"nprobe": 4}, 0, [],
            status="failed", reason="StoreError: no space left on device",
        )  # fmt: skip
        odd = Phase("rotate", 0, SECOND, {"angle": 90}, {"count": 12.0, "qps": 12.0})
        odd.missing["latency_p99"] = "too few samples"
        yield self._trial("faiss", "hnsw", "spin", {"m": 16}, {}, 0, [odd])

    def _trial(
        self,
        store: str,
        kind: str,
        experiment: str,
        index: dict[str, Any],
        point: dict[str, Any],
        repeat: int,
        phases: list[Phase],
        right: bool = True,
        status: str = "ok",
        reason: str | None = None,
    ) -> TrialRecord:
        self.made += 1
        found = [
            GateResult("row_count", True, "50000 rows"),
            GateResult(
                "scores_agree", right, "" if right else "score 0.31 of id 7, recomputed 0.87"
            ),
            GateResult("recall_floor", True, "recall 0.98 at a generous setting"),
            # Nothing measured here searches under filters.
            GateResult("filters_complete", False if store == "usearch" else None, "8.6 of 10 rows"),
        ]
        scopes = EXPERIMENTS[experiment].depends_on() if experiment in EXPERIMENTS else ()
        gate = [result.row(scopes) for result in found]
        if not right:
            status, reason = "invalid", "gate failed: scores_agree"
        row = TrialRow(
            key=f"{self.dataset}-{self.made}", store=store, lane="embedded", dataset=self.dataset,
            rows=ROWS, dim=100, metric_space="cosine", experiment=experiment, index_kind=kind,
            index_params=index, params=point, repeat=repeat, seed=repeat,
            differences=["normalises vectors", "no delete"] if store == "chroma" else [],
        )  # fmt: skip
        return TrialRecord(
            row, status, reason, "1.2.3", phases=phases, gate=gate if phases else [], duration_s=1.0
        )

    def _search(
        self, speed: float, index: dict[str, Any], ef: int, clients: int, right: bool
    ) -> Phase:
        m = index.get("m", 0)
        miss = 0.0 if not ef else 0.9 / (1 + ef / 18) ** (1.2 + m / 40)
        recall = (1 - miss) * (1.0 if right else 0.9)
        cost_us = 40 + ef * 3.1 * (1 + m / 48) if ef else 300.0
        latency = cost_us / speed * (1 + 0.35 * max(0, clients - 2))
        latency *= float(self.rng.normal(1, 0.02))
        tail = self.rng.lognormal(0, 0.25, 400)
        qps = clients * 1e6 / (latency * float(tail.mean()) * 1.05)
        quantiles = np.quantile(
            latency * tail, [0.5, 0.9, 0.95, 0.99, 0.999], method="inverted_cdf"
        )
        phase = Phase(
            "search", 0, round(400 / qps * SECOND), {"k": 10, "clients": clients}, role=Role.SEARCH
        )
        if ef:
            phase.params = {**phase.params, "ef_search": ef}
        names = ("p50", "p90", "p95", "p99", "p99_9")
        phase.metrics = {
            "count": 400.0,
            "errors": 2.0 if clients == 8 else 0.0,
            "qps": qps,
            "latency_mean": float(latency * tail.mean()),
            **{f"latency_{n}": float(q) for n, q in zip(names, quantiles, strict=True)},
            "latency_max": float(latency * tail.max()),
            "recall_mean": recall,
            "concurrency": float(clients),
            "load_1m": 1.4,
        }
        phase.missing["cpu_us_per_op"] = "the server is in process"
        if clients == 8:
            phase.errors = [("Timeout", 2, ["no answer within <5> s"])]
        recorder = Recorder()
        recorder.start(0)
        for factor in tail:
            recorder.operation(0, 0, max(1, int(latency * factor * 1000)))
        phase.histograms["latency"] = recorder.histogram("latency")
        return phase

    def _ingest(self, speed: float, rows: int, store: str) -> list[Phase]:
        noise = float(self.rng.normal(1, 0.03))
        load = rows / (9000 * speed**0.5) * noise
        build = rows * (rows / ROWS) ** 0.2 / 6000 * noise if store in ("faiss", "chroma") else 0.0
        wait = 1.2 * noise if store == "qdrant-edge" else 0.0
        ready = load + 0.2 + build + wait
        first = Phase("load", 0, SECOND, metrics={"load_s": load, "rows_per_s": rows / load})
        first.metrics["mb_per_s"] = rows * 400 / 1e6 / load
        waited = Phase("wait", 0, SECOND, {"known_by": "status is green"}, {"wait_s": wait})
        fresh = Phase("freshness", 0, SECOND)
        if build:
            fresh.missing["time_to_searchable"] = "not searchable before the index is built"
        else:
            fresh.metrics["time_to_searchable"] = 800 / speed * noise
        total = Phase("ingest", 0, SECOND, role=Role.LOAD)
        total.metrics = {
            "load_s": load, "flush_s": 0.2, "build_s": build, "wait_s": wait, "ready_s": ready,
            "ready_rows_per_s": rows / ready, "count": float(rows),
        }  # fmt: skip
        return [first, fresh, waited, total]

    def _crud(self, speed: float, store: str) -> list[Phase]:
        phases = []
        costs = {
            "find_by_vector": 120, "read": 8, "find_by_condition": 400, "create": 90,
            "update": 160, "delete": 30,
        }  # fmt: skip
        for name, cost in costs.items():
            phase = Phase(name, 0, SECOND, {"clients": 1}, role=Role.OPERATION)
            if name == "delete" and store == "hnswlib":
                phase.missing["latency_p50"] = "unsupported: delete"
                phases.append(phase)
                continue
            p50 = cost / speed * float(self.rng.normal(1, 0.05))
            phase.metrics = {
                "count": 1000.0, "errors": 0.0, "latency_p50": p50, "latency_p99": p50 * 4.2,
                "latency_max": p50 * 11, "verified": 1000.0, "ineffective": 0.0,
            }  # fmt: skip
            if name == "update" and store == "chroma":
                phase.metrics["ineffective"] = 3.0
                phase.valid = False
                phase.reason = "3 of 1000 were acknowledged without their effect"
            phases.append(phase)
        return phases

    def _footprint(self, speed: float, store: str) -> Phase:
        raw, extra = ROWS * 400, 1_200_000
        phase = Phase("footprint", 0, SECOND, role=Role.SIZE)
        rss = raw * (1.2 + 0.3 / max(speed, 0.05)) * float(self.rng.normal(1, 0.01))
        rss = min(rss, raw * 6)
        phase.metrics = {
            "raw_bytes": raw, "metadata_bytes": extra, "rss_bytes": rss + 80e6,
            "rss_growth_bytes": rss, "rss_ratio": rss / (raw + extra),
        }  # fmt: skip
        if store == "memory":
            phase.missing["disk_bytes"] = phase.missing["disk_ratio"] = "keeps nothing on disk"
        else:
            disk = raw * (1.3 + 0.2 / max(speed, 0.1))
            phase.metrics |= {"disk_bytes": disk, "disk_ratio": disk / (raw + extra)}
        phase.missing["index_bytes"] = phase.missing["log_bytes"] = "the store does not tell"
        return phase
