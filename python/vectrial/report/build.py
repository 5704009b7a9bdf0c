"""From a run to a report: which sections there are, in which order."""

from __future__ import annotations

from vectrial.report import (
    cautions,
    overview,
    provenance,
    sections_anomaly,
    sections_capacity,
    sections_cost,
    sections_experiments,
    sections_gate,
    sections_hybrid,
    sections_load,
    sections_search,
    sections_server,
    sections_store,
    text,
)
from vectrial.report.analysis import sweeps
from vectrial.report.data import RunData
from vectrial.report.document import Report
from vectrial.report.theme import Looks


def build(run: RunData) -> Report:
    """Everything that is shown of a run, whatever it is written as."""
    found = sweeps(run)
    looks = Looks(run.labels, run.stores)
    sections = (
        overview.at_a_glance(run, found),
        sections_search.speed(run, found, looks),
        sections_search.latency(run, found, looks),
        sections_store.crud(run, looks),
        sections_store.ingest(run, looks),
        sections_store.footprint(run, looks),
        *sections_experiments.sections(run, looks),
        sections_anomaly.section(run),
        sections_hybrid.hybrid(run, looks),
        sections_search.concurrency(run, looks),
        sections_load.open_loop(run, looks),
        sections_capacity.capacity(run, looks),
        sections_load.client_tax(run),
        sections_load.certificate(run),
        sections_server.cost(run),
        sections_cost.money(run),
        provenance.others(run),
        sections_gate.gate(run),
        provenance.not_measured(run),
        provenance.stores(run),
        sections_server.servers(run),
        provenance.data(run),
        provenance.environment(run),
        provenance.method(run),
    )
    return Report(
        title=str(run.run["suite_name"]),
        about=run.about,
        meta=_meta(run),
        warnings=(*cautions.warnings(run), *sections_server.warnings(run)),
        answers=overview.answers(run, found),
        sections=tuple(section for section in sections if section is not None),
        labels=run.labels,
        stores=run.stores,
    )


def _meta(run: RunData) -> tuple[tuple[str, str], ...]:
    began = run.run["started_at"]
    measured = sum(trial.status == "ok" for trial in run.trials)
    facts = [
        ("Run", str(run.run["run_id"])),
        ("Measured", f"{began:%Y-%m-%d %H:%M} UTC" if began is not None else text.NOTHING),
        ("Stores", str(len(run.stores))),
        ("Trials", f"{measured:,} of {len(run.trials):,} ok"),
        ("Datasets", ", ".join(dict.fromkeys(row["name"] for row in run.datasets)) or text.NOTHING),
        ("Vectrial", " ".join(filter(None, (run.run["vectrial_version"], _revision(run))))),
    ]
    return tuple(facts)


def _revision(run: RunData) -> str:
    revision = run.run.get("git_revision")
    return f"({str(revision)[:10]})" if revision else ""
