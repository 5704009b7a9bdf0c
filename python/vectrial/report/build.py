"""From a run to a report: which sections there are, in which order."""

from __future__ import annotations

from dataclasses import replace

from rich.console import RenderableType

from vectrial.analysis.analysis import sweeps
from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Report, Section
from vectrial.document.charts.theme import Looks
from vectrial.document.render import terminal
from vectrial.report.sections import (
    anomaly,
    experiments,
    load,
    overview,
    provenance,
    search,
    server,
    store,
)
from vectrial.report.sections import (
    capacity as sections_capacity,
)
from vectrial.report.sections import (
    cost as sections_cost,
)
from vectrial.report.sections import (
    gate as sections_gate,
)
from vectrial.report.sections import (
    hybrid as sections_hybrid,
)
from vectrial.report.sections import (
    warnings as cautions,
)
from vectrial.util import (
    formatting,
)


def build(run: RunData) -> Report:
    """Everything that is shown of a run, whatever it is written as."""
    found = sweeps(run)
    looks = Looks(run.labels, run.stores)
    sections = (
        overview.at_a_glance(run, found),
        search.speed(run, found, looks),
        search.latency(run, found, looks),
        store.crud(run, looks),
        store.ingest(run, looks),
        _joined(store.footprint(run, looks), experiments.storage(run, looks)),
        *experiments.sections(run, looks),
        anomaly.section(run),
        sections_hybrid.hybrid(run, looks),
        search.concurrency(run, looks),
        load.open_loop(run, looks),
        sections_capacity.capacity(run, looks),
        load.client_tax(run),
        load.certificate(run),
        server.cost(run),
        sections_cost.money(run),
        provenance.others(run),
        sections_gate.gate(run),
        provenance.not_measured(run),
        provenance.stores(run),
        server.servers(run),
        provenance.data(run),
        provenance.environment(run),
        provenance.method(run),
    )
    return Report(
        title=str(run.run["suite_name"]),
        about=run.about,
        meta=_meta(run),
        warnings=(*cautions.warnings(run), *server.warnings(run)),
        answers=overview.answers(run, found),
        sections=tuple(section for section in sections if section is not None),
        labels=run.labels,
        stores=run.stores,
    )


def summary(run: RunData) -> RenderableType:
    """The report's warnings, short answers and first table, for `rich`."""
    return terminal.summary(build(run))


def _joined(first: Section | None, second: Section | None) -> Section | None:
    """One section of two, under the title of the first there is."""
    if first is None or second is None:
        return first or second
    lead = f"{first.lead} {second.lead}"
    return replace(first, lead=lead, blocks=(*first.blocks, *second.blocks))


def _meta(run: RunData) -> tuple[tuple[str, str], ...]:
    began = run.run["started_at"]
    measured = sum(trial.status == "ok" for trial in run.trials)
    facts = [
        ("Run", str(run.run["run_id"])),
        ("Measured", f"{began:%Y-%m-%d %H:%M} UTC" if began is not None else formatting.NOTHING),
        ("Stores", str(len(run.stores))),
        ("Trials", f"{measured:,} of {len(run.trials):,} ok"),
        (
            "Datasets",
            ", ".join(dict.fromkeys(row["name"] for row in run.datasets)) or formatting.NOTHING,
        ),
        ("Vectrial", " ".join(filter(None, (run.run["vectrial_version"], _revision(run))))),
    ]
    return tuple(facts)


def _revision(run: RunData) -> str:
    revision = run.run.get("git_revision")
    return f"({str(revision)[:10]})" if revision else ""
