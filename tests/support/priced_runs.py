"""A run of a server and a library with the looks of `capacity`, both lanes and prices; its figures
are invented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import capacity_runs as made
from run_contents import RunContents
from synthetic_runs import SECOND

from vectrial.model.phase import Phase, Role
from vectrial.results.writer import TrialRecord
from vectrial.telemetry.phases import add_server_metrics

SUITE = f"""
name = "priced"
datasets = [{{ name = "glove-words-100" }}]
stores = [{{ store = "faiss", index = "hnsw" }}]
experiments = [{{ experiment = "capacity" }}]
{made.SHEET}"""
FACTS = {
    "provider": "local", "why": "its program can be had here", "program": "redis-server",
    "limits": "2 processors", "cores": [0, 1],
}  # fmt: skip
_CEILING = {"client_cpu_share": 0.1, "ceiling_qps": 70_000.0, "ceiling_share": 0.11}
_CLOSED = {"loop": "closed", "clients": 4, "ef_search": 64}


def priced_run() -> RunContents:
    """Three repeats of everything."""
    return made.contents_of([one for repeat in (1, 2, 3) for one in _round(repeat)], SUITE)


def _round(repeat: int) -> Iterator[TrialRecord]:
    for store, rate, about in (
        ("faiss", 1000.0, {}),
        ("redis", 700.0, {"server": FACTS, "lane": "native"}),
    ):
        rate += 3 * repeat
        looks = made.look(1, rate), made.look(2, rate * 1.05, "p99 31 ms", 31_000.0)
        phases = made.alone(rate * 5), *looks, made.sustains(rate)
        yield _seen(made.trial(store, *phases, repeat=repeat, **about))
        held = Phase(
            "footprint",
            0,
            SECOND,
            {},
            {"rss_bytes": 9e7, "disk_bytes": 3e7 + repeat},
            role=Role.SIZE,
        )
        yield made.trial(store, held, repeat=repeat, experiment="storage", **about)
    for lane, speed in (("native", 1.0), ("sdk", 0.3)):
        about = {"server": FACTS, "lane": lane, "repeat": repeat}
        phase = _search(_CLOSED, speed, repeat)
        yield _seen(made.trial("redis", phase, experiment="search", params=_CLOSED, **about))
    given = {"loop": "open", "arrivals": "poisson", "rate": 300, "ef_search": 64}
    phase = _search(given, 1.0, repeat)
    about = {"server": FACTS, "lane": "native", "repeat": repeat}
    yield _seen(made.trial("redis", phase, experiment="search", params=given, **about))


def _search(params: dict[str, Any], speed: float, repeat: int) -> Phase:
    """A search through one of the lanes."""
    qps, p99 = 5000 * speed + 7 * repeat, 900 / speed
    metrics = made.figures(qps, p99, 0.97) | {
        "latency_p99_9": 2 * p99, "cpu_us_per_op": 12 / speed, "service_p99": 0.9 * p99,
        "schedule_lag_p99": 90.0, "in_flight_peak": 40.0, "backlog": 0.0,
        "in_flight_limit_hits": 0.0,
        **_CEILING,
    }  # fmt: skip
    return Phase("search", 0, SECOND, {"k": 10, **params}, metrics, role=Role.SEARCH)


def _seen(trial: TrialRecord) -> TrialRecord:
    """The trial with what its server used, where it has one."""
    if trial.server is None:
        return trial
    samples = [
        {
            "phase": 0, "at_s": at_s, "process": "server", "cpu_s": 5 + 1.5 * at_s, "threads": 7,
            "rss_bytes": 180 << 20, "peak_rss_bytes": 190 << 20, "read_bytes": 0,
            "write_bytes": int(at_s * 1000), "disk_bytes": 4096, "voluntary_switches": 10,
            "involuntary_switches": 0, "load_1m": 1.0,
        }
        for at_s in (0.0, 0.5, 1.0)
    ]  # fmt: skip
    add_server_metrics(trial.phases, samples, 0)
    return replace(trial, telemetry=samples)
