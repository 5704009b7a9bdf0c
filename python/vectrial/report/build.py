"""The report of a run: its sections and their order."""

from __future__ import annotations

from rich.console import RenderableType

from vectrial.analysis.analysis import sweeps
from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Report, Section
from vectrial.document.charts.theme import Looks
from vectrial.document.render import terminal
from vectrial.document.sections import section_of_values
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.report.sections import (
    clusters,
    cost,
    gate,
    growth,
    load,
    overview,
    provenance,
    search,
    server,
    turns,
)
from vectrial.report.sections.answers import answers
from vectrial.report.sections.warnings import warnings
from vectrial.util import formatting


def build(run: RunData) -> Report:
    """The complete report of a run, for every output format."""
    found = sweeps(run)
    looks = Looks(run.labels, run.stores)
    sections = (
        overview.glance_section(run, found),
        search.speed(run, found, looks),
        turns.turns(run, found, looks),
        search.latency(run, found, looks),
        search.concurrency(run, looks),
        load.open_loop(run, looks),
        load.loads(run),
        clusters.clusters(run),
        *_experiment_sections(run, looks),
        growth.growth(run, looks),
        load.client_tax(run),
        load.certificate(run),
        server.cost(run),
        cost.money(run),
        gate.gate(run),
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
        note=run.note,
        meta=_meta(run),
        warnings=_warnings(run),
        answers=answers(run, found),
        sections=tuple(section for section in sections if section is not None),
        labels=run.labels,
        stores=run.stores,
    )


def summary(run: RunData) -> RenderableType:
    """The report's warnings, short answers and first table, for `rich`; nothing else is built."""
    found = sweeps(run)
    glance = overview.glance_section(run, found)
    return terminal.summary(
        Report(
            title=str(run.run["suite_name"]),
            note=run.note,
            warnings=_warnings(run),
            answers=answers(run, found),
            sections=() if glance is None else (glance,),
        )
    )


def _warnings(run: RunData) -> tuple[str, ...]:
    return (*warnings(run), *server.warnings(run))


def _experiment_sections(run: RunData, looks: Looks) -> list[Section]:
    """The sections of the measured experiments; every value of an experiment that is not installed
    here."""
    measured = dict.fromkeys(trial.experiment for trial in run.trials)
    known = [EXPERIMENTS[name] for name in measured if name in EXPERIMENTS]
    found: list[Section] = []
    for experiment in sorted(known, key=lambda one: (one.place, one.name)):
        found += experiment.sections(run, looks)
    for name in measured:
        if name not in EXPERIMENTS:
            found += section_of_values(run, name, name.replace("_", " "))
    return found


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
