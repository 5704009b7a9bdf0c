"""Simulated hosts: each node of a cluster in a network of its own, joined by links."""

from __future__ import annotations

from enum import StrEnum

from pydantic import ConfigDict, Field

from vectrial.model.inputs import ExactModel
from vectrial.model.limits import Limits

#: More nodes than these are a typing error on one machine.
MOST_NODES = 64


class LimitShare(StrEnum):
    """Scope of the server limits in the suite's placement."""

    TOTAL = "total"  # all nodes together: n nodes have an nth each of what one node has
    EACH = "each"  # every node: n nodes have n times what one node has


class Hosts(ExactModel):
    """Hosts on one machine: one for each node of a cluster, or one for a single server that can
    form a cluster.

    limits: whether the placement's server limits apply to all nodes together or to each.
    link_mbit: rate of each host's link in both directions, in 10^6 bits per second; unlimited
        unless given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    limits: LimitShare = LimitShare.TOTAL
    link_mbit: float | None = Field(default=None, ge=0.1, le=1_000_000)


def limits_of_node(whole: Limits, nodes: int, share: LimitShare = LimitShare.TOTAL) -> Limits:
    """Limits of one node of a cluster of this many nodes, derived from the suite's limits."""
    if share is LimitShare.EACH:
        return whole
    cpus = None if whole.cpus is None else whole.cpus / nodes
    memory = None if whole.memory_bytes is None else whole.memory_bytes // nodes
    return Limits(cpus, memory)
