"""A tiny suite on store classes of a test, measured in this process and read as a person would.

Everything but the process boundary is what `vectrial run` does: the plan, the measuring process's
own class, one record per trial, the run folder, the report. Store classes need no entry point.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

from in_process import in_process
from rich.console import Console

from vectrial.analysis import run_data
from vectrial.cli.run_view import PlainView
from vectrial.datasets import catalog, library
from vectrial.document.blocks import Report
from vectrial.document.render import markdown
from vectrial.model.phase import Phase
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.plan.plan import make_plan
from vectrial.report.build import build
from vectrial.report.sections import answers
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.run import prepare
from vectrial.run.prepare import shape_of
from vectrial.run.runner import run_plan
from vectrial.suite.model import Suite
from vectrial.suite.validation import validate

#: 2,000 rows in 16 dimensions, in clusters.
DATASET = "clustered-16-2k"


@dataclass(frozen=True)
class Run:
    """What a run left behind. console: its lines, as where there is no terminal."""

    folder: Path
    records: tuple[TrialRecord, ...]
    console: str

    def of(self, store: type[Store] | str, experiment: str | None = None) -> list[TrialRecord]:
        """The trials of a store, in the order measured."""
        name = store if isinstance(store, str) else store.name
        own = [record for record in self.records if record.row.store == name]
        return [one for one in own if experiment in (None, one.row.experiment)]

    def trial(self, store: type[Store] | str, experiment: str) -> TrialRecord:
        """The one trial of an experiment on a store."""
        (record,) = self.of(store, experiment)
        return record

    def phase(self, store: type[Store] | str, experiment: str, name: str | None = None) -> Phase:
        """The one phase of that name, of any unless given, in the experiment's trials."""
        every = [phase for record in self.of(store, experiment) for phase in record.phases]
        (phase,) = [phase for phase in every if name in (None, phase.name)]
        return phase

    def lines(self, store: type[Store] | str) -> list[str]:
        """Lines of the console about trials of a store."""
        name = store if isinstance(store, str) else store.name
        return [one for one in self.console.splitlines() if one.startswith(f"  {name} ")]

    @cached_property
    def data(self) -> run_data.RunData:
        """As reports read it."""
        return run_data.load(self.folder)

    @cached_property
    def report(self) -> Report:
        """The whole report."""
        return build(self.data)

    @cached_property
    def text(self) -> str:
        """The report as Markdown."""
        return markdown.render(self.report)

    def headlines(self) -> dict[str, str]:
        """The short answers at the report's head: each question, and the first of the stores that
        may answer it, whatever their repeats show, without which no store is named."""
        with (
            mock.patch.object(answers, "LEAST_REPEATS", 1),
            mock.patch.object(answers._Questions, "_evidence", return_value={}),
        ):
            report = build(self.data)
        return {one.question: one.answer for _, cards in report.answers for one in cards}


def measure(
    kinds: Sequence[type[Store]],
    experiments: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    index: str = "flat",
    dataset: Mapping[str, Any] | None = None,
    **suite: Any,
) -> Run:
    """Measure every store class with every experiment, in this process, one job after the other.

    Args:
        kinds: store classes, each with a name of its own.
        experiments: as in a suite's file.
        folder: where the datasets and the run are kept; made where it is not there.
        index: the kind of index of all stores.
        dataset: as in a suite's file; all of `DATASET` with 50 queries, unless given.
        suite: other keys of a suite's file.
    """
    plain = {
        "name": "liars",
        "repeats": 1,
        "datasets": [{"name": DATASET, "queries": 50} | dict(dataset or {})],
        "stores": [{"store": kind.name, "index": index} for kind in kinds],
        "experiments": [dict(one) for one in experiments],
        **suite,
    }
    known = {kind.name: kind for kind in kinds}
    asked = validate(Suite, plain, "liars")
    folder.mkdir(parents=True, exist_ok=True)
    with _home(folder / "home"):
        for ref in asked.datasets:
            catalog.ensure(ref.name, lambda *_: None)
        plan = make_plan(
            asked,
            where="liars",
            load_store=known.__getitem__,
            shape_of=shape_of,
            known_stores=known,
        )
        return _measured(plan, folder / "run")


def _measured(plan: Plan, folder: Path) -> Run:
    printed = io.StringIO()
    view = _View(plan, Console(file=printed, width=10_000, color_system=None))
    with RunWriter(folder) as writer:
        writer.begin(suite_name=plan.suite.name, command="liars", version="0", environment={})
        for ref in plan.datasets:
            cut = library.subset(library.load(ref.name), ref.rows, ref.queries)
            writer.dataset(prepare._dataset_row(cut))
        run_plan(plan, writer, view, execute=in_process)
        writer.finish()
    return Run(folder, tuple(view.records), printed.getvalue())


class _View(PlainView):
    """Remembers the records."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.records: list[TrialRecord] = []

    def finished(self, record: TrialRecord) -> None:
        self.records.append(record)
        super().finished(record)


@contextmanager
def _home(folder: Path) -> Iterator[None]:
    """Datasets are kept in `folder` meanwhile, also where a fixture of a module measures."""
    before = os.environ.get("VECTRIAL_HOME")
    os.environ["VECTRIAL_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["VECTRIAL_HOME"]
        else:
            os.environ["VECTRIAL_HOME"] = before
