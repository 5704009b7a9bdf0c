"""`vectrial run`: measure a suite."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, say, stderr_console, stdout_console
from vectrial.cli.run_again import disturbed_trials, worth_again
from vectrial.cli.run_existing import (
    AddressOption,
    CollectionOption,
    ColumnsOption,
    DatasetOption,
    ExistingOption,
    ExistingOptions,
    IdOption,
    KOption,
    LaneOption,
    MetricOption,
    QueriesOption,
    SearchOption,
    VectorOption,
    WhereOption,
    existing_suite,
)
from vectrial.cli.run_status import StatusFileView
from vectrial.cli.run_suite import SuiteSource, find_suite
from vectrial.cli.run_until import until_decided
from vectrial.cli.run_view import dry_run_table, make_view, plan_objects
from vectrial.model.errors import UserError
from vectrial.model.trial import MACHINE_LACKED
from vectrial.plan.checks import plan_warnings
from vectrial.plan.model import Plan
from vectrial.results import note as notes
from vectrial.results.reader import measured_keys
from vectrial.results.writer import RunWriter
from vectrial.run import exposure
from vectrial.run.place import HERE, place
from vectrial.run.prepare import (
    RESOLVED,
    Fingerprints,
    check_machine,
    new_folder,
    plan_of,
    prepare,
)
from vectrial.run.runner import Outcome, Within, here_within, run_plan
from vectrial.suite import shipped
from vectrial.suite.model import Suite
from vectrial.util import interrupts
from vectrial.util.file_modes import private_files
from vectrial.util.formatting import plural

if TYPE_CHECKING:
    from vectrial.analysis.run_data import RunData


def run(
    suite_path: Annotated[
        Path | None,
        typer.Argument(
            metavar="SUITE",
            help="Suite file, or the name of a suite that comes with Vectrial:"
            f" {', '.join(shipped.names())}.",
        ),
    ] = None,
    store: options.StoresOption = None,
    dry_run: options.DryRunOption = False,
    resume: options.ResumeOption = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="BUNDLE",
            help="Re-run the suite in a bundle. The dataset is not included.",
        ),
    ] = None,
    seal: options.SealOption = None,
    repeats: options.SuiteRepeatsOption = None,
    out: options.OutOption = options.RUNS,
    allow_exposed: options.ExposedOption = False,
    on: options.OnOption = "here",
    remeasure_disturbed: Annotated[
        bool,
        typer.Option(
            "--remeasure-disturbed",
            help="With --resume: also measure trials again during which something else was busy on"
            " the machine. Their results are replaced when the new ones are there.",
        ),
    ] = False,
    remeasure: Annotated[
        bool,
        typer.Option(
            "--remeasure/--no-remeasure",
            help="Measure trials again at the end that met other work on the machine, for up to"
            " 15 % of the run's time.",
        ),
    ] = True,
    until: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Go on with more repeats until it is decided which store is faster at recall"
            " 0.95, or --minutes are over.",
        ),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(min=0.1, max=10_000, metavar="MINUTES", help="Time for --until-decided."),
    ] = 10.0,
    note: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Note on the run; with --resume it is added."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the report when the run ends.")
    ] = True,
    existing: ExistingOption = None,
    address: AddressOption = None,
    collection: CollectionOption = None,
    id_: IdOption = None,
    vector: VectorOption = None,
    columns: ColumnsOption = None,
    metric: MetricOption = None,
    queries: QueriesOption = None,
    where: WhereOption = None,
    search: SearchOption = None,
    dataset: DatasetOption = None,
    lane: LaneOption = None,
    k: KOption = 10,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Measure a SUITE: every store, every experiment, every repeat, into one run folder.

    \b
    vectrial run demo --dry-run                 the plan and a time estimate
    vectrial run demo                           measure, then write the report
    vectrial run mine.toml                      a suite of your own; docs/suites.md starts with one
    vectrial run --resume runs/latest           continue an interrupted run
    vectrial run --resume runs/latest --remeasure-disturbed    what a busy machine disturbed
    vectrial run mine.toml --until-decided --minutes 20    which store is faster
    vectrial run --from their.vectrial.tar.gz   repeat a run from its bundle
    vectrial run demo --on ray                  on the machines of a Ray cluster
    vectrial run demo --note "new disk"         see `vectrial note`
    vectrial run --existing pgvector --address db:5432 --collection products --columns price
                                                a table that is there already, read-only

    Progress goes to stderr. The last line on stdout is the run folder; with --format jsonl, an
    object with the folder and the number of trials by status. With --dry-run --format jsonl there
    is one object per trial. With --from, the comparison with the bundle's run goes to stderr; with
    --format jsonl it goes to stdout before the last line, in the format of `vectrial compare`.

    After a signal the run stops within seconds, and the last line is the command that resumes it.
    A closed stderr does not stop a run. Exit codes: 0 success, 1 nothing could be measured, or this
    machine lacked something, 2 invalid input, 130 after Ctrl-C, 143 after SIGTERM, 129 after
    SIGHUP.
    """
    console = stderr_console()
    check_resume(resume, out)
    stores = store or ()
    about = ExistingOptions(
        address=address,
        collection=collection,
        id=id_,
        vector=vector,
        columns=columns,
        metric=metric,
        queries=queries,
        where=where,
        search=search,
        dataset=dataset,
        lane=lane,
        k=k,
    )
    if existing is None:
        about.refuse()
        source = find_suite(suite_path, resume, bundle, seal).restricted(stores, repeats)
        if suite_path is not None and source.where != str(suite_path):
            say(console, f"suite: {source.where}")
    elif any(one is not None for one in (suite_path, resume, bundle, seal)):
        raise UserError("a SUITE, --resume, --from and --existing exclude each other")
    else:
        source = existing_suite(existing, about, repeats, console)
    if source.seal:
        say(console, f"{bundle}: seal {source.seal}")
    plan = plan_of(source.suite, source.where)
    disturbed = disturbed_trials(resume, plan, console) if remeasure_disturbed else frozenset()
    for text in plan_warnings(plan):
        say(console, f"! {text}")
    if dry_run:
        _warn_cores(plan, console)
        left = plan if resume is None else left_of(plan, resume, console, disturbed)
        _print_plan(left, form)
        return
    folder = resume.resolve() if resume is not None else new_folder(out, source.suite)
    words = ["vectrial", "run", "--resume", str(folder)]
    if resume is not None:
        words += [] if repeats is None else ["--repeats", str(repeats)]
        words += [word for name in stores for word in ("--store", name)]
    words += [] if on == HERE else ["--on", on]
    words += ["--remeasure-disturbed"] if remeasure_disturbed else []
    words += [] if remeasure else ["--no-remeasure"]
    again = shlex.join(words)
    if bundle is not None:
        again += f", then: {shlex.join(['vectrial', 'compare', str(bundle), str(folder)])}"

    unsaid = [] if note is None else [note]

    def measured(part: Plan, of: SuiteSource, keys: frozenset[str] = disturbed) -> Outcome:
        return measure(
            part,
            of.suite,
            of.text,
            folder,
            console,
            of.same,
            again,
            allow_exposed=allow_exposed,
            on=on,
            disturbed=keys,
            note=unsaid.pop() if unsaid else None,
        )

    if until:
        outcome = until_decided(source, folder, minutes, console, measured)
    else:
        outcome = measured(plan, source)
    interrupts.set_hint(f"interrupted; the run is complete: vectrial report {folder}")
    try:
        loaded = _loaded(folder, own=resume is None)
        if remeasure and not remeasure_disturbed and outcome.measured:
            part, keys = worth_again(plan, loaded, console)
            if keys:
                measured(part, source, keys)
                loaded = _loaded(folder, own=resume is None)
        _print_summary(loaded, report, console)
        if bundle is not None and outcome.counts.get("ok"):
            _compare(bundle, folder, console, form)
    finally:
        # The folder is printed even if the report fails, and if nobody reads stdout.
        with suppress(BrokenPipeError):
            if form is Format.JSONL:
                trials = {"trials": dict(outcome.counts), "measured_before": outcome.before}
                repeated = {"bundle": str(bundle), "seal": source.seal} if source.seal else {}
                print_json([{"folder": str(folder), **trials, **repeated}])
            else:
                print(folder)
    if not outcome.succeeded:
        sys.exit(1)


def check_resume(resume: Path | None, out: Path) -> None:
    """Raise `UserError` if both `--resume` and `--out` are given."""
    if resume is not None and out != options.RUNS:
        raise UserError("a run goes on in its own folder", where="--out", remedy="leave it out")


def left_of(
    plan: Plan, folder: Path, console: Console, again: frozenset[str] = frozenset()
) -> Plan:
    """The part of a plan that the run in `folder` has not measured, or must measure again; prints
    how much is already measured.

    Raises:
        UserError: the run is being written, or cannot be read.
    """
    left = plan.without(measured_keys(folder) - again)
    if before := len(plan.trials) - len(left.trials):
        total = plural(len(plan.trials), "trial")
        console.print(f"{before:,} of {total} were measured before", highlight=False)
    return left


def _warn_cores(plan: Plan, console: Console) -> None:
    """Warn if this machine lacks the cores of a plan, which may be meant for another one."""
    try:
        plan.suite.placement.resolved()
    except UserError as error:
        say(console, f"! not on this machine: {error}")


def _print_plan(plan: Plan, form: Format) -> None:
    if form is Format.TABLE:
        stdout_console().print(dry_run_table(plan))
    else:
        print_json(plan_objects(plan))


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
    on: str = HERE,
    disturbed: frozenset[str] = frozenset(),
    note: str | None = None,
    known_lines: set[str] | None = None,
    within: Within | None = None,
) -> Outcome:
    """Measure the part of a plan that `folder` does not hold yet. Only its owner may read it.

    Args:
        text: the suite, as written to the folder.
        same: fingerprints that datasets must have, by name and rows.
        again: the command that continues after an interruption; default `vectrial run --resume`.
        allow_exposed: also measure servers that others on the network can reach.
        on: where to measure; see `vectrial.run.place`.
        disturbed: keys of trials that are measured again.
        note: text added to the note on the run.
        known_lines: see `make_view`.
        within: a time limit: jobs that do not fit are skipped.

    Prints the `again` command on Ctrl-C, which ends the program, and when measuring raises an
    error. An error before the first measurement leaves no new folder.
    """
    check_machine(plan, here=on == HERE)
    if on == HERE:
        exposure.check(plan.servers, lambda line: say(console, line), allow_exposed=allow_exposed)
    again = again or shlex.join(["vectrial", "run", "--resume", str(folder)])
    interrupts.set_hint(f"interrupted; go on with: {again}")
    try:
        with (
            private_files(),
            place(on, folder) as where,
            RunWriter(folder) as writer,
            _view(plan, writer, console, disturbed, within, known_lines=known_lines) as view,
        ):
            prepare(plan, writer, view.fetching, suite, text, same, where.environment)
            if note is not None:
                notes.add(folder, note)
            try:
                with interrupts.unwrapped():
                    execute = where.execute if within is None else here_within(within)
                    outcome = run_plan(plan, writer, view, allow_exposed, execute, disturbed)
                    writer.finish()
                if outcome.lacking:
                    lacked = f"{MACHINE_LACKED} something in {plural(outcome.lacking, 'trial')}"
                    say(console, f"! {lacked}: make room for it, and go on with: {again}")
            except Exception:
                say(console, f"what had been measured is kept; go on with: {again}")
                raise
    except KeyboardInterrupt:
        began = (folder / RESOLVED).is_file()
        say(console, f"interrupted; go on with: {again}" if began else "interrupted at its start")
        interrupts.set_hint("")
        raise SystemExit(interrupts.code()) from None
    return outcome


def _view(
    plan: Plan,
    writer: RunWriter,
    console: Console,
    again: frozenset[str],
    within: Within | None,
    *,
    known_lines: set[str] | None = None,
) -> StatusFileView:
    """The view of a run. Trials that an earlier process measured count as done."""
    finished = writer.finished_keys() - again
    before = len(finished & {trial.row.key for trial in plan.trials})
    view = make_view(plan, console, before, within, known_lines=known_lines)
    return StatusFileView(plan, view, writer.folder, before)


def _loaded(folder: Path, *, own: bool) -> RunData:
    """Load a run. own: this process has begun it."""
    from vectrial.analysis.run_data import load  # takes a while, and measuring does not need it

    return load(folder, own=own)


def _print_summary(loaded: RunData, report: bool, console: Console) -> None:
    """Print the summary, and write the report page if `report`."""
    # Imported here: the chart library takes a while, and measuring does not need it.
    from vectrial.report.build import build, summary

    console.print(summary(loaded))
    if report:
        from vectrial.document.render import write

        page = write.write_html(build(loaded), write.made(loaded.folder / "report"))
        say(console, f"report: {page}")


def _compare(bundle: Path, folder: Path, console: Console, form: Format) -> None:
    """Compare the run with the one that it repeats, from the bundle."""
    from vectrial.cli.compare import THRESHOLD, print_objects, share
    from vectrial.compare import document
    from vectrial.compare.build import DEFAULT_METRICS, compare, metrics_of
    from vectrial.compare.cells import CompareOptions
    from vectrial.compare.sides import sides_of
    from vectrial.document.render import terminal

    what = CompareOptions(metrics_of(DEFAULT_METRICS), (), ())
    comparison = compare(*sides_of(str(bundle), str(folder), ()), what, share(THRESHOLD))
    if form is Format.JSONL:
        print_objects(comparison)
    else:
        console.print(terminal.render(document.report(comparison)))
    say(console, f"again: {shlex.join(['vectrial', 'compare', str(bundle), str(folder)])}")
