"""`vectrial run`: measure a suite."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from vectrial.cli import options, run_suite
from vectrial.cli.output import Format, print_json, say, stderr_console, stdout_console
from vectrial.cli.run_again import disturbed_trials, measure_until_decided, plan_to_remeasure
from vectrial.cli.run_status import StatusFileView
from vectrial.cli.run_suite import ExistingOptions, SuiteSource, existing_suite, find_suite
from vectrial.cli.run_view import dry_run_table, make_view, plan_objects
from vectrial.model.errors import UserError
from vectrial.model.trial import MACHINE_LACKED
from vectrial.plan.checks import plan_warnings
from vectrial.plan.model import Plan
from vectrial.questions.bench import Measurer
from vectrial.results.reader import measured_keys
from vectrial.results.writer import RunWriter
from vectrial.run.measuring import MeasureSettings, check
from vectrial.run.measuring import measure as measure_into
from vectrial.run.place import HERE
from vectrial.run.prepare import RESOLVED, new_folder, plan_of
from vectrial.run.runner import Outcome
from vectrial.suite import builtin
from vectrial.suite.model import Suite
from vectrial.telemetry.load import slowdown
from vectrial.util import interrupts
from vectrial.util.formatting import plural

if TYPE_CHECKING:
    from vectrial.analysis.run_data import RunData

_PLAIN = MeasureSettings()


def run(
    suite_path: Annotated[
        Path | None,
        typer.Argument(
            metavar="SUITE",
            help="Suite file, or the name of a suite that comes with Vectrial:"
            f" {', '.join(builtin.names())}.",
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
            help="With --resume: also repeat trials during which something else was busy on the"
            " machine. New results replace the old ones.",
        ),
    ] = False,
    remeasure: Annotated[
        bool,
        typer.Option(
            "--remeasure/--no-remeasure",
            help="At the end, repeat trials during which something else was busy on the machine,"
            " for up to 15 % of the run's time.",
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
        typer.Option(
            metavar="TEXT", help="Note on the run; with --resume, added to the earlier note."
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the report when the run ends.")
    ] = True,
    existing: run_suite.ExistingOption = None,
    address: run_suite.AddressOption = None,
    collection: run_suite.CollectionOption = None,
    id_: run_suite.IdOption = None,
    vector: run_suite.VectorOption = None,
    columns: run_suite.ColumnsOption = None,
    metric: run_suite.MetricOption = None,
    queries: run_suite.QueriesOption = None,
    where: run_suite.WhereOption = None,
    search: run_suite.SearchOption = None,
    dataset: run_suite.DatasetOption = None,
    lane: run_suite.LaneOption = None,
    k: run_suite.KOption = 10,
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
        left = plan if resume is None else remaining_plan(plan, resume, console, disturbed)
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
        said = unsaid.pop() if unsaid else None
        settings = MeasureSettings(of.fingerprints, allow_exposed, on, keys, said)
        return measure(part, of.suite, of.text, folder, console, settings, again=again)

    if until:
        outcome = measure_until_decided(source, folder, minutes, console, measured)
    else:
        outcome = measured(plan, source)
    interrupts.set_hint(f"interrupted; the run is complete: vectrial report {folder}")
    try:
        loaded = _load(folder, is_own_run=resume is None)
        if remeasure and not remeasure_disturbed and outcome.measured:
            part, keys = plan_to_remeasure(plan, loaded, console)
            if keys:
                measured(part, source, keys)
                loaded = _load(folder, is_own_run=resume is None)
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


def remaining_plan(
    plan: Plan, folder: Path, console: Console, again: frozenset[str] = frozenset()
) -> Plan:
    """The part of a plan that the run in `folder` has not measured, or must measure again; prints
    how much is already measured.

    Raises:
        UserError: the run is being written, or cannot be read.
    """
    left = plan.without_trials(measured_keys(folder) - again)
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
        stdout_console().print(dry_run_table(plan, slowdown()))
    else:
        print_json(plan_objects(plan))


def measure(
    plan: Plan,
    suite: Suite,
    text: str,
    folder: Path,
    console: Console,
    settings: MeasureSettings = _PLAIN,
    *,
    again: str | None = None,
    known_lines: set[str] | None = None,
) -> Outcome:
    """Measure the part of a plan that `folder` does not hold yet; see `run.measuring.measure`.

    Args:
        text: the suite, as written to the folder.
        again: the command that continues after an interruption; default `vectrial run --resume`.
        known_lines: see `make_view`.

    Prints the `again` command on Ctrl-C, which ends the program, and when measuring raises an
    error.
    """
    check(plan, settings, lambda line: say(console, line))
    again = again or shlex.join(["vectrial", "run", "--resume", str(folder)])
    at_start = interrupts.hint() or "interrupted at its start"

    def hint() -> str:
        """How to go on: a run that has not begun is started again."""
        began = (folder / RESOLVED).is_file()
        return f"interrupted; go on with: {again}" if began else at_start

    interrupts.set_hint(hint)

    def view(writer: RunWriter) -> StatusFileView:
        """The view of a run. Trials that an earlier process measured count as done."""
        finished = writer.finished_keys() - settings.disturbed
        before = len(finished & {trial.row.key for trial in plan.trials})
        shown = make_view(
            plan, console, before, settings.time_limit, known_lines=known_lines, slowdown=slowdown()
        )
        return StatusFileView(plan, shown, writer.folder, before)

    try:
        outcome = measure_into(plan, suite, text, folder, view, settings)
    except KeyboardInterrupt:
        say(console, hint())
        interrupts.set_hint("")
        raise SystemExit(interrupts.exit_code()) from None
    except Exception:
        if (folder / RESOLVED).is_file():
            say(console, f"what had been measured is kept; go on with: {again}")
        raise
    if outcome.lacking:
        lacked = f"{MACHINE_LACKED} something in {plural(outcome.lacking, 'trial')}"
        say(console, f"! {lacked}: make room for it, and go on with: {again}")
    return outcome


def measurer(
    console: Console, known_lines: set[str] | None = None, *, whole: bool = False
) -> Measurer:
    """How the questions measure from the command line.

    known_lines: see `make_view`. whole: a plan is the whole run, so that an interruption after it
        leaves a run that is complete.
    """

    def measure_plan(
        plan: Plan, text: str, folder: Path, settings: MeasureSettings, again: str | None
    ) -> Outcome:
        outcome = measure(
            plan, plan.suite, text, folder, console, settings, again=again, known_lines=known_lines
        )
        if whole:
            interrupts.set_hint(f"interrupted; the run is complete: vectrial report {folder}")
        return outcome

    return measure_plan


def _load(folder: Path, *, is_own_run: bool) -> RunData:
    """Load a run. is_own_run: this process has begun it."""
    from vectrial.analysis.run_data import load  # takes a while, and measuring does not need it

    return load(folder, is_own_run=is_own_run)


def _print_summary(loaded: RunData, report: bool, console: Console) -> None:
    """Print the summary, and write the report page if `report`."""
    # Imported here: the chart library takes a while, and measuring does not need it.
    from vectrial.report.build import build, summary

    console.print(summary(loaded))
    if report:
        from vectrial.document.render import export

        page = export.write_html(build(loaded), export.make_folder(loaded.folder / "report"))
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
