"""Costs of a measured load, by a price sheet."""

from __future__ import annotations

from dataclasses import dataclass

from vectrial.suite.model import Prices

#: 8760 hours of a year over twelve months.
HOURS_A_MONTH = 730.0
GIB = 2**30


@dataclass(frozen=True)
class Use:
    """Resources that a store occupies, and its QPS meanwhile.

    processors: processors that it may use. memory_bytes: its peak memory. disk_bytes: None if it
        keeps nothing on disk. qps: answers per second.
    """

    processors: float
    memory_bytes: float
    disk_bytes: float | None
    qps: float


@dataclass(frozen=True)
class Bill:
    """Prices in the price sheet's currency: a month of processors, memory and disk, and a million
    answers at full use."""

    processors: float
    memory: float
    disk: float
    per_million: float

    @property
    def month(self) -> float:
        """Sum of processors, memory and disk for a month."""
        return self.processors + self.memory + self.disk


def bill(use: Use, prices: Prices) -> Bill:
    """Cost of `use`.

    month = 730 h × (processors × vcpu_hour + GiB of memory × gib_hour) + GiB of disk × gib_month;
    a million answers cost month / (730 h × 3600 s/h × qps) × 10⁶.
    """
    processors = HOURS_A_MONTH * use.processors * prices.vcpu_hour
    memory = HOURS_A_MONTH * use.memory_bytes / GIB * prices.gib_hour
    disk = (use.disk_bytes or 0.0) / GIB * prices.gib_month
    answers = HOURS_A_MONTH * 3600 * use.qps
    return Bill(processors, memory, disk, (processors + memory + disk) / answers * 1e6)
