"""`vectrial run`: measure a suite."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout, say
from vectrial.cli.run_status import KeptView
from vectrial.cli.run_suite import find_suite
from vectrial.cli.run_view import dry_run_table, make_view, plan_lines
from vectrial.model.errors import UserError
from vectrial.plan.checks import cautions
from vectrial.plan.plan import Plan
from vectrial.results.reader import measured_keys
from vectrial.results.writer import RunWriter
from vectrial.run import exposure
from vectrial.run.prepare import (
    RESOLVED,
    RUNS,
    Fingerprints,
    check_machine,
    new_folder,
    plan_of,
    prepare,
)
from vectrial.run.runner import Outcome, run_plan
from vectrial.suite.model import Suite
from vectrial.util import interrupts
from vectrial.util.file_modes import private_files
from vectrial.util.formatting import plural


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
    asked = find_suite(suite_path, resume, bundle, seal).restricted(only or (), repeats)
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
            prepare(plan, writer, view.fetching, suite, text, same)
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


def _view(plan: Plan, writer: RunWriter, console: Console) -> KeptView:
    """What one sees. Trials that an earlier process measured are done from the beginning."""
    before = len(writer.finished_keys() & {trial.row.key for trial in plan.trials})
    return KeptView(plan, make_view(plan, console, before), writer.folder, before)


def _show(folder: Path, report: bool, console: Console) -> None:
    """The summary on the terminal, and the page."""
    # Imported here: the chart library takes its time, and measuring does not need it.
    from vectrial.analysis.run_data import load
    from vectrial.document.render import write
    from vectrial.report.build import build, summary

    loaded = load(folder)
    console.print(summary(loaded))
    if report:
        page = write.write_html(build(loaded), write.made(folder / "report"))
        say(console, f"report: {page}")


def _compare(bundle: Path, folder: Path, console: Console, form: Form) -> None:
    """What the run says of the one that it repeats."""
    from vectrial.cli.compare import THRESHOLD, print_objects, share
    from vectrial.compare import document
    from vectrial.compare.build import DEFAULT_METRICS, compare, metrics_of
    from vectrial.compare.cells import Asked
    from vectrial.compare.sides import sides_of
    from vectrial.document.render import terminal

    asked = Asked(metrics_of(DEFAULT_METRICS), (), ())
    sides = sides_of(str(bundle), str(folder), None)
    comparison = compare(*sides, asked, share(THRESHOLD))
    if form is Form.JSONL:
        print_objects(comparison)
    else:
        console.print(terminal.render(document.report(comparison)))
    say(console, f"again: {shlex.join(['vectrial', 'compare', str(bundle), str(folder)])}")
