"""`vectrial run`: measure a suite."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console

from vectrial import __version__
from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout, say
from vectrial.cli.run_status import KeptView
from vectrial.cli.run_suite import RESOLVED, Fingerprints, keep, require_same, wanted
from vectrial.cli.run_view import View, dry_run_table, make_view, plan_lines
from vectrial.datasets import catalog, library
from vectrial.datasets.catalog.model import Entry
from vectrial.datasets.inspect import repeated_queries
from vectrial.model.context import fields_of, own_filters
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.store import ALL_OPERATORS
from vectrial.plan.checks import cautions
from vectrial.plan.plan import DatasetShape, Plan, make_plan
from vectrial.results.folder import replace_text
from vectrial.results.reader import measured_keys
from vectrial.results.writer import RunWriter
from vectrial.run import exposure
from vectrial.run.runner import Outcome, run_plan
from vectrial.servers.provide import check_environment
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, Suite
from vectrial.telemetry.environment import environment_facts
from vectrial.util import interrupts
from vectrial.util.file_modes import private_files, readable_files
from vectrial.util.formatting import plural

RUNS = Path("runs")


def run(
    suite_path: Annotated[
        Path | None,
        typer.Argument(metavar="SUITE", help="Suite file; suites/ has ready ones."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only this store (repeatable).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and a time estimate; measure nothing.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Complete this run: keep finished trials, retry failed ones."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--from", help="Re-run the suite in a bundle. The dataset is not included."),
    ] = None,
    seal: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Refuse the bundle unless it has this seal."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Number of repeats, instead of the suite's."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for new run folders.", show_default=str(RUNS))
    ] = None,
    allow_exposed: Annotated[
        bool,
        typer.Option(
            "--allow-exposed",
            help="Start servers even if other machines on the network can reach them.",
        ),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the report when the run ends.")
    ] = True,
    form: FormOption = Form.TABLE,
) -> None:
    """Measure a SUITE: every store, every experiment, every repeat, into one run folder.

    \b
    vectrial run suites/demo.toml --dry-run     the plan and a time estimate
    vectrial run suites/demo.toml               measure, then write the report
    vectrial run --resume runs/latest           continue an interrupted run
    vectrial run --from their.vectrial.tar.gz   repeat a run from its bundle

    Progress goes to stderr. The last line on stdout is the run folder; with --format jsonl, an
    object with the folder and the number of trials by status. With --dry-run --format jsonl there
    is one object per trial. With --from, the comparison with the bundle's run goes to stderr; with
    --format jsonl it goes to stdout before the last line, in the format of `vectrial compare`.
    Exit codes: 0 success, 1 nothing could be measured, 2 invalid input, 130 after Ctrl-C, 143 after
    SIGTERM, 129 after SIGHUP. After a signal the run stops within seconds and the last line tells
    how to resume it. A closed stderr does not stop a run.
    """
    console = on_stderr()
    if resume is not None and out is not None:
        raise UserError("a run goes on in its own folder", where="--out", remedy="leave it out")
    asked = wanted(suite_path, resume, bundle, seal).restricted(only or (), repeats)
    if asked.seal:
        say(console, f"{bundle}: seal {asked.seal}")
    plan = plan_of(asked.suite, asked.where)
    for told in cautions(asked.suite):
        say(console, f"! {told}")
    if dry_run:
        _tell_cores(plan, console)
        _show_plan(plan if resume is None else left_of(plan, resume, console), form)
        return
    folder = resume.resolve() if resume is not None else new_folder(out, asked.suite)
    again = _again(folder, only or (), repeats) if resume is not None else _again(folder)
    if bundle is not None:
        again += f", then: {shlex.join(['vectrial', 'compare', str(bundle), str(folder)])}"
    outcome = measure(
        plan,
        asked.suite,
        asked.text,
        folder,
        console,
        asked.same,
        again,
        allow_exposed=allow_exposed,
    )
    interrupts.set_hint(f"interrupted; the run is complete: vectrial report {folder}")
    try:
        _show(folder, report, console)
        if bundle is not None and outcome.counts.get("ok"):
            _compare(bundle, folder, console, form)
    finally:
        # It was measured, whatever can be said of it, and whoever reads that or does not.
        with suppress(BrokenPipeError):
            if form is Form.JSONL:
                trials = {"trials": dict(outcome.counts), "measured_before": outcome.before}
                repeated = {"bundle": str(bundle), "seal": asked.seal} if asked.seal else {}
                print(json.dumps({"folder": str(folder), **trials, **repeated}))
            else:
                print(folder)
    if not outcome.measured:
        sys.exit(1)


def left_of(plan: Plan, folder: Path, console: Console) -> Plan:
    """What going on with the run of `folder` measures of a plan; says how much it leaves out.

    Raises:
        UserError: the run is being written, or cannot be read.
    """
    left = plan.without(measured_keys(folder))
    if before := len(plan.trials) - len(left.trials):
        said = f"{before:,} of {plural(len(plan.trials), 'trial')} were measured before"
        console.print(said, highlight=False)
    return left


def _again(folder: Path, only: Sequence[str] = (), repeats: int | None = None) -> str:
    """How one goes on with the run in `folder`, restricted as this call was."""
    words = ["vectrial", "run", "--resume", str(folder)]
    words += [] if repeats is None else ["--repeats", str(repeats)]
    return shlex.join([*words, *(word for one in only for word in ("--only", one))])


def _tell_cores(plan: Plan, console: Console) -> None:
    """Say where a plan cannot be measured on this machine for want of its cores; it may be meant
    for another one."""
    try:
        plan.suite.placement.resolved()
    except UserError as error:
        say(console, f"! not on this machine: {error}")


def _show_plan(plan: Plan, form: Form) -> None:
    if form is Form.TABLE:
        on_stdout().print(dry_run_table(plan))
        return
    for line in plan_lines(plan):
        print(line)


def shape_of(ref: DatasetRef) -> DatasetShape:
    """From the library when the dataset is here, else from the catalogue."""
    whole: Dataset | Entry
    if ref.name in library.names():
        whole = library.load(ref.name)
        fields, queries = fields_of(whole), len(whole.queries)
        own = own_filters(whole)
        labels = whole.query_metadata.column_names if whole.query_metadata is not None else []
    else:
        whole = catalog.entry(ref.name)
        fields, queries = whole.fields, whole.queries
        own = (whole.operators or ALL_OPERATORS) if whole.filtered else None
        labels = [field.name for field in whole.query_fields]
    for what, asked, there in (("rows", ref.rows, whole.rows), ("queries", ref.queries, queries)):
        if asked is not None and asked > there:
            raise UserError(
                f"dataset '{ref.name}' has {there:,} {what}, {asked:,} are asked for",
                remedy=f"ask for fewer {what}",
            )
    return DatasetShape(
        ref.name,
        ref.rows or whole.rows,
        whole.dim,
        whole.metric,
        fields if ref.metadata else (),
        own if ref.metadata else None,
        frozenset(labels),
        ref.metadata,
    )


def new_folder(out: Path | None, suite: Suite) -> Path:
    """Where the run of a suite that begins now is kept, under `out`, or `RUNS`; it is not made
    yet."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in suite.name)
    folder = ((out or RUNS) / f"{stamp}-{safe}").resolve()
    if folder.exists():
        raise UserError("the run folder exists already", where=str(folder))
    return folder


def plan_of(suite: Suite, where: str) -> Plan:
    """The plan of a suite with the stores and datasets of this machine; see `make_plan`."""
    return make_plan(
        suite,
        where=where,
        load_store=registry.load,
        shape_of=shape_of,
        known_stores=registry.STORES.working()[0],
    )


def check_machine(plan: Plan) -> None:
    """See to it that a plan fits this machine and its environment, before anything is done.

    Raises:
        UserError: it names cores that are not here, or a variable of the environment makes no
            sense.
    """
    plan.suite.placement.resolved()
    for store in dict.fromkeys(job.store for job in plan.jobs):
        check_environment(store, plan.suite.provider(store.name))


def measure(
    plan: Plan,
    suite: Suite,
    text: str,
    folder: Path,
    console: Console,
    same: Fingerprints | None = None,
    again: str | None = None,
    *,
    allow_exposed: bool = False,
) -> Outcome:
    """Measure what `folder` does not hold yet of a plan; the suite is kept there as `text`.

    same: what the datasets must be, by name and rows; any where it does not name them.
    again: how one goes on after an interruption, unless by `vectrial run --resume`.
    allow_exposed: measure also servers that others on the network can reach.

    Nobody else may read the folder.

    On Ctrl-C says how to go on, and ends the program. So it says when measuring ends by an error,
    which is raised; where one comes before that, no new folder is left.
    """
    check_machine(plan)
    exposure.check(plan, lambda line: say(console, line), allow_exposed=allow_exposed)
    again = again or _again(folder)
    interrupts.set_hint(f"interrupted; go on with: {again}")
    try:
        with private_files(), RunWriter(folder) as writer, _view(plan, writer, console) as view:
            _prepare(plan, writer, view, suite, text, same or {})
            try:
                outcome = run_plan(plan, writer, view, allow_exposed)
                writer.finish()
            except Exception:
                say(console, f"what had been measured is kept; go on with: {again}")
                raise
    except KeyboardInterrupt:
        began = (folder / RESOLVED).is_file()
        say(console, f"interrupted; go on with: {again}" if began else "interrupted at its start")
        interrupts.set_hint("")
        raise SystemExit(interrupts.code()) from None
    return outcome


def _prepare(
    plan: Plan, writer: RunWriter, view: View, suite: Suite, text: str, same: Fingerprints
) -> None:
    """Keep what the run is, and have its data here; what cannot be prepared is no run."""
    try:
        _begin(writer, suite, text)
        interrupts.check()  # what the database imports may have swallowed one
        for ref in plan.datasets:
            with readable_files():
                dataset = catalog.ensure(ref.name, view.fetching)
            cut = library.subset(dataset, ref.rows, ref.queries, metadata=ref.metadata)
            require_same(cut, same)
            writer.dataset(_dataset_row(cut))
        _point_latest(writer.folder)
    except Exception:
        writer.discard()
        raise
    except KeyboardInterrupt:
        if not (writer.folder / RESOLVED).is_file():
            writer.discard()
        raise


def _view(plan: Plan, writer: RunWriter, console: Console) -> KeptView:
    """What one sees. Trials that an earlier process measured are done from the beginning."""
    before = len(writer.finished_keys() & {trial.row.key for trial in plan.trials})
    return KeptView(plan, make_view(plan, console, before), writer.folder, before)


def _begin(writer: RunWriter, suite: Suite, text: str) -> None:
    """Keep what the run is: the suite, the machine, the command."""
    keep(writer.folder, suite, text)
    environment = environment_facts()
    facts = json.dumps(environment, indent=2, default=str)
    replace_text(writer.folder / "environment.json", facts)
    command = shlex.join(["vectrial", *sys.argv[1:]])
    writer.begin(
        suite_name=suite.name, command=command, version=__version__, environment=environment
    )


def _show(folder: Path, report: bool, console: Console) -> None:
    """The summary on the terminal, and the page."""
    # Imported here: the chart library takes its time, and measuring does not need it.
    from vectrial.analysis.run_data import load
    from vectrial.report.build import build
    from vectrial.report.render import terminal, write

    loaded = load(folder)
    console.print(terminal.summary(loaded))
    if report:
        page = write.write_html(build(loaded), write.made(folder / "report"))
        say(console, f"report: {page}")


def _compare(bundle: Path, folder: Path, console: Console, form: Form) -> None:
    """What the run says of the one that it repeats."""
    from vectrial.cli.compare import THRESHOLD, print_objects, share
    from vectrial.compare import write
    from vectrial.compare.build import DEFAULT_METRICS, compare, metrics_of
    from vectrial.compare.cells import Asked
    from vectrial.compare.sides import sides_of

    asked = Asked(metrics_of(DEFAULT_METRICS), (), ())
    sides = sides_of(str(bundle), str(folder), None)
    comparison = compare(*sides, asked, share(THRESHOLD))
    if form is Form.JSONL:
        print_objects(comparison)
    else:
        console.print(write.table(comparison))
    say(console, f"again: {shlex.join(['vectrial', 'compare', str(bundle), str(folder)])}")


def _dataset_row(dataset: Dataset) -> dict[str, object]:
    metadata = dataset.metadata
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "rows": dataset.rows,
        "dim": dataset.dim,
        "queries": len(dataset.queries),
        "metric_space": str(dataset.metric),
        "raw_bytes": dataset.raw_bytes,
        "metadata_bytes": 0 if metadata is None else metadata.nbytes,
        "source": dataset.provenance.source,
        "licence": dataset.provenance.licence,
        "stand_in_for": dataset.provenance.stand_in_for,
        "facts": json.dumps(
            {**dataset.facts, "repeated_queries": repeated_queries(dataset)},
            default=str,
            allow_nan=False,
        ),
    }


def _point_latest(folder: Path) -> None:
    """`latest` beside the run folder points at it; replaced in one step."""
    link, fresh = folder.parent / "latest", folder.parent / f".latest-{os.getpid()}"
    for left in folder.parent.glob(".latest-*"):  # of a run that was killed just here
        pid = left.name.rpartition("-")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            left.unlink(missing_ok=True)
    fresh.symlink_to(folder.name, target_is_directory=True)
    fresh.replace(link)
