"""Limits on a server's use of the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a process. cpus: in processors, 1.5 for one and a half. None: unlimited."""

    cpus: float | None = None
    memory_bytes: int | None = None

    def __bool__(self) -> bool:
        return self.cpus is not None or self.memory_bytes is not None

    def __str__(self) -> str:
        parts = [] if self.cpus is None else [f"{self.cpus:g} processors"]
        if self.memory_bytes is not None:
            parts.append(f"{self.memory_bytes / 2**20:,.0f} MiB")
        return ", ".join(parts) or "none"
