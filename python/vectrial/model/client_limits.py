"""Limits of a client: the greatest rate it reaches alone, and the share that a trial may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ConfigDict, Field

from vectrial.model.inputs import ExactModel
from vectrial.model.placement import Placement


@dataclass(frozen=True)
class Ceiling:
    """Greatest rate of the client at a number of requests in flight: requests per second, and the
    client's processor time per request in microseconds."""

    in_flight: int
    qps: float
    cpu_us: float


class ClientLimits(ExactModel):
    """Limits beyond which a row says more about the client than about the store: it is
    `client-bound`.

    docs/method.md says why the defaults are what they are.

    cpu_share: processor time of the client's threads over the time they had.
    ceiling_share: requests a second over the ceiling.
    lag_us, lag_share: p99 of the schedule lag, in microseconds and over p99 of the latency; an open
        loop is client-bound if it exceeds both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cpu_share: float = Field(default=0.8, gt=0)
    ceiling_share: float = Field(default=0.8, gt=0)
    lag_us: float = Field(default=200.0, gt=0)
    lag_share: float = Field(default=0.1, gt=0)


@dataclass(frozen=True)
class Certificate:
    """Limits of a trial's client. ceilings: by requests in flight; see `in_flight_for`. lacking:
    reason for missing ceilings. disproved: `ceilings` that a phase exceeded: the client can do more
    than when they were measured, so no phase is held to them."""

    limits: ClientLimits
    placement: Placement
    ceilings: Mapping[int, Ceiling]
    lacking: str = ""
    disproved: set[int] = field(default_factory=set)
