"""Slices of phases that took turns, as they were recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.phase import serial
from vectrial.results.reader import RunReader

#: A session has fewer rounds.
_ROUNDS = 1_000_000


@dataclass(frozen=True)
class Slices:
    """The slices of one phase, in their order; arrays are (n,).

    rounds: int64, ascending: numbers shared only by slices that were measured together.
    seconds: float64. counts: int64, operations that succeeded. latencies: HDR histograms in
        nanoseconds; empty if nothing was answered.
    head_s: float64, length of the heads, which are left out. head_rates: answers per second of the
        heads; nan if unknown.
    idle_s, idle_cpu_s: float64, since the store's last turn; nan if unknown.
    ran_s, waited_s: float64, seconds of all threads of client and store with a processor, and ready
        to run while others had it; nan if unknown.
    """

    rounds: NDArray[np.int64]
    seconds: NDArray[np.float64]
    counts: NDArray[np.int64]
    latencies: tuple[bytes, ...]
    head_s: NDArray[np.float64]
    head_rates: NDArray[np.float64]
    idle_s: NDArray[np.float64]
    idle_cpu_s: NDArray[np.float64]
    ran_s: NDArray[np.float64]
    waited_s: NDArray[np.float64]

    @property
    def rates(self) -> NDArray[np.float64]:
        """Answers per second of each slice."""
        return self.counts / self.seconds

    @property
    def serial(self) -> bool:
        """True if `model.slices.serial` is true of all slices; False if unknown."""
        all_s = (float(one.sum()) for one in (self.seconds, self.ran_s, self.waited_s))
        return serial(*all_s) and bool((self.waited_s < self.seconds).all())

    @property
    def own_rates(self) -> NDArray[np.float64]:
        """Answers per second of the slices in which no other program had their processor."""
        return self.counts / (self.seconds - self.waited_s)

    @property
    def warmth(self) -> float:
        """The median rate of the heads over that of the rest: 1 if handing over costs nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = self.head_rates / self.rates
        known = shares[np.isfinite(shares)]
        return float(np.median(known)) if len(known) else float("nan")

    @property
    def idle_cores(self) -> float | None:
        """Processors that the store kept busy while others had their turns; None if unknown."""
        known = np.isfinite(self.idle_cpu_s) & (self.idle_s > 0)
        waited_s = float(self.idle_s[known].sum())
        return float(self.idle_cpu_s[known].sum()) / waited_s if waited_s else None


def read(reader: RunReader) -> Mapping[int, Slices]:
    """The slices of every phase that has any, by phase id."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    query = "select * from slice where seconds > 0 order by phase_id, session, round"
    for row in reader.rows(query):
        rows[row["phase_id"]].append(row)
    return {phase: _slices(some) for phase, some in rows.items()}


def _slices(rows: list[dict[str, Any]]) -> Slices:
    def column(name: str) -> NDArray[np.float64]:
        return np.array(
            [np.nan if row.get(name) is None else row[name] for row in rows], np.float64
        )

    with np.errstate(invalid="ignore", divide="ignore"):
        head_rates = column("head_count") / column("head_s")
    return Slices(
        np.array([row["session"] * _ROUNDS + row["round"] for row in rows], np.int64),
        column("seconds"),
        column("count").astype(np.int64),
        tuple(row["hdr"] or b"" for row in rows),
        column("head_s"),
        head_rates,
        column("idle_s"),
        column("idle_cpu_s"),
        column("ran_s"),
        column("waited_s"),
    )
