"""Servers of the run, and the resources that each phase used."""

from __future__ import annotations

from collections import defaultdict

from vectrial.analysis.analysis import operating_point
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Column,
    Row,
    Section,
    Table,
    absent_cell,
    columns,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts import search
from vectrial.util import formatting

#: Seconds below which a phase is too short for samples a second apart to say what it kept busy.
_SHORT_S = 0.5

_COST = (
    *columns("store", "dataset", "experiment", "phase", clients=("Clients", "")),
    Column.for_metric("server_cores", group="Server processors"),
    Column("server_cpu_us", "Per operation", "us", "Server processors", spread=True),
    Column("client_cpu_us", "Per operation", "us", "Client processor time", spread=True),
    Column("server_rss", "At the end", "B", "Server memory", spread=True),
    Column("server_peak", "At most", "B", "Server memory", spread=True),
    Column("server_disk", "Disk", "B", spread=True),
    Column("server_read", "Read", "B", "From and to disks", spread=True),
    Column("server_written", "Written", "B", "From and to disks", spread=True),
    Column("at", "Setting", numeric=False),
)


def cost(run: RunData) -> Section | None:
    """Processor, memory and disk usage of the servers, for every phase."""
    points: list[Point] = []
    left_out: dict[str, dict[str, None]] = defaultdict(dict)
    for point in run.points:
        known = {name for one in point.phases for name in one.metrics}
        if "server_rss_bytes" in known:
            points.append(point)
        elif "server_cpu_s" in known:  # with the reason why nothing is known
            phase = f"{point.phase} ({point.experiment})"
            left_out[point.why_missing("server_cpu_s")][phase] = None
    if not points:
        return None
    rows = tuple(_cost_row(run, point) for point in points)
    lead = (
        "Sampled once a second from every process of the server, and counted from the start of the "
        "phase to its end. What a store gains in speed by keeping more processors busy, or by "
        "holding more in memory, stands here. Read and written are what reached the disks; memory "
        "at most is the kernel's own record where it grew in the phase."
    )
    notes = tuple(
        f"Left out: {formatting.list_in_words(list(phases))}: {why}."
        for why, phases in left_out.items()
    )
    table = Table("server-cost", "What each phase cost the server", _COST, rows, notes)
    return Section("server-cost", "What it cost the server", lead, (table,))


def _cost_row(run: RunData, point: Point) -> Row:
    clients = search.clients_of(point)
    duration = point.value("server_cpu_s"), point.value("server_cores")
    brief = duration[0] is not None and duration[1] and duration[0] / duration[1] < _SHORT_S
    cores = spread_cell(point, "server_cores", "1")
    if brief:
        cores = absent_cell("too short a phase to be sampled")
    cells = (
        plain_cell(run.labels[point.series]),
        plain_cell(point.dataset),
        plain_cell(point.experiment),
        plain_cell(point.phase),
        absent_cell() if clients is None else plain_cell(clients),
        cores,
        spread_cell(point, "server_cpu_us_per_op", "us", absent="nothing was counted"),
        spread_cell(point, "cpu_us_per_op", "us", absent="nothing was counted"),
        spread_cell(point, "server_rss_bytes", "B"),
        spread_cell(point, "server_peak_rss_bytes", "B"),
        spread_cell(point, "server_disk_bytes", "B"),
        spread_cell(point, "server_read_bytes", "B"),
        spread_cell(point, "server_write_bytes", "B"),
        plain_cell(operating_point(point)),
    )
    return Row(cells, point.state, point.series)


_RUN_BY = columns("store", "provider", "why", "program", cores="Processors", limits="Limits")


def servers(run: RunData) -> Section | None:
    """Origin of each store's server, and the resources it was allowed."""
    ways: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for trial in run.trials:
        if trial.server is not None and "provider" in trial.server:  # else of a library
            said = {key: trial.server.get(key) or "" for key in ("provider", "why", "program")}
            if nodes := trial.server.get("nodes"):
                where = trial.server.get("hosts")
                said["program"] += f", {formatting.plural(int(nodes), 'node')} ({where})"
            cores = ", ".join(map(str, trial.server.get("cores") or ())) or "all"
            way = (*said.values(), cores, str(trial.server.get("limits") or ""))
            if way not in ways[trial.series.store]:
                ways[trial.series.store].append(way)
    if not ways:
        return None
    rows = tuple(
        Row((plain_cell(store), *(plain_cell(word, word or formatting.NOTHING) for word in way)))
        for store, found in ways.items()
        for way in found
    )
    table = Table("servers", "The servers", _RUN_BY, rows)
    lead = "Where each server came from, and what it was allowed to use."
    return Section("servers", "How the servers were run", lead, (table,))


def warnings(run: RunData) -> list[str]:
    """Notes on trials, and limits that are not in force."""
    found = [f"{note}." for trial in run.trials for note in trial.notes]
    for trial in run.trials:
        limits = str((trial.server or {}).get("limits") or "")
        if "not applied" in limits:
            found.append(f"The server of {trial.series.store} had no limits: {limits}.")
    return list(dict.fromkeys(found))
