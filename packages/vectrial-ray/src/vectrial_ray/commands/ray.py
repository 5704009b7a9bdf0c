"""Look at a Ray cluster before something is measured on it (`vectrial run --on ray`).

Exit codes: 0 fit, 1 not fit, 2 it cannot be used.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, plain_table, print_json, say, stderr_console, stdout_console

#: Beyond these a machine or its network says more than a store: a share of a processor's time, and
#: microseconds by which clocks may be off.
_INTERRUPTED_SHARE, _CLOCK_US = 0.02, 5_000.0


@dataclass(frozen=True)
class Fitness:
    """Facts found about a machine. ping_us: round trip to the first machine; None for itself."""

    name: str
    address: str
    kind: str
    clock_us: float
    clock_error_us: float
    ping_us: float | None
    interrupted_share: float
    faults: tuple[str, ...]


def check(
    on: Annotated[str, typer.Argument(metavar="CLUSTER", help="ray, or ray://HOST:PORT.")] = "ray",
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Check whether the machines of a Ray cluster are fit to measure on.

    \b
    vectrial ray check                       the cluster of this machine
    vectrial ray check ray://10.0.0.1:6379   another

    All need the same versions of Vectrial, Python and Ray, without which nothing is shown. A row
    tells of each machine its kind (only machines of one kind measure a run), its clock against
    this machine's, the way to the first machine and back, and how much of a processor's time
    something else took. Exit codes: 0 all are fit, 1 one is not, 2 there is no such cluster.
    """
    from vectrial_ray.cluster import address_of, connected, join, leave

    with connected(address_of(on)):
        machines = join()
        try:
            found = [_fitness(machine, machines[0]) for machine in machines]
        finally:
            leave([machine.actor for machine in machines])
    if form is Format.JSONL:
        print_json(vars(one) for one in found)
    else:
        _print(found)
    kinds = len({one.kind for one in found})
    if kinds > 1:
        say(stderr_console(), f"! {kinds} kinds of machines: a run uses those of one kind")
    if any(one.faults for one in found):
        sys.exit(1)


def _fitness(machine: Any, first: Any) -> Fitness:
    import ray

    from vectrial_ray.clocks import offset_of

    offset = offset_of(machine.actor)
    ping_us = None
    if machine is not first:
        port = ray.get(first.actor.echo.remote(first.address))
        ping_us = ray.get(machine.actor.ping_us.remote(first.address, port))
    interrupted = ray.get(machine.actor.interrupted_share.remote())
    faults = []
    if offset.error_ns / 1e3 > _CLOCK_US:
        faults.append(f"its clock is known to {offset.error_ns / 1e6:.1f} ms only")
    if interrupted > _INTERRUPTED_SHARE:
        faults.append(f"something else took {interrupted:.0%} of a processor")
    return Fitness(
        machine.name,
        machine.address,
        str(machine.about.kind),
        offset.ns / 1e3,
        offset.error_ns / 1e3,
        ping_us,
        interrupted,
        tuple(faults),
    )


def _print(found: list[Fitness]) -> None:
    columns = ("machine", "address", "kind", "clock error (µs)", "ping (µs)", "interrupted", "")
    table = plain_table(*columns, right=columns[3:6])
    for one in found:
        ping = "–" if one.ping_us is None else f"{one.ping_us:,.0f}"
        table.add_row(
            one.name,
            one.address,
            one.kind,
            f"±{one.clock_error_us:,.0f}",
            ping,
            f"{one.interrupted_share:.1%}",
            "; ".join(one.faults) or "fit",
        )
    stdout_console().print(table)
