"""`vectrial reproduce`: measure a published report again, in its own tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from vectrial.cli import options
from vectrial.cli import run as run_command
from vectrial.cli.output import (
    CleanConsole,
    print_json,
    stderr_console,
    stdout_console,
    warn_broken,
)
from vectrial.cli.run_view import dry_run_table, plan_objects
from vectrial.cli.values import parameters
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.plan.model import Plan
from vectrial.run.measuring import MeasureSettings
from vectrial.run.prepare import check_machine, plan_of, toml_of
from vectrial.stores import registry
from vectrial.telemetry.load import slowdown
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports import folder as reproduction_folder
from vectrial_reproduce.reports.memory import check_memory
from vectrial_reproduce.reports.model import Reproduction
from vectrial_reproduce.reports.planning import PartPlan, Settings, plan_parts
from vectrial_reproduce.reports.published import figures
from vectrial_reproduce.reports.selection import Selection, select

if TYPE_CHECKING:
    from vectrial.document.blocks import Report

#: Folders within it: of the page, and of the figures that the tables link to.
_REPORT, _FIGURES = "report", "figures"
#: Minimum width of the printed tables, in columns.
_WIDTH = 110
#: Each part with its plan; no plan where nothing of it can be measured.
Plans = Sequence[tuple[PartPlan, Plan | None]]
_NOTHING = "not asked for, or none of its stores is here"


class ReproductionFormat(StrEnum):
    """Output of a reproduction."""

    TABLE = "table"
    MARKDOWN = "md"
    JSONL = "jsonl"
    HTML = "html"


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="REPORT", help="Report to reproduce; without it, list the reports."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the report's rows; 1 is its full size.",
            show_default="as in the list",
        ),
    ] = None,
    store: options.StoresOption = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="PART",
            help="Measure only this part, by its name in the plan (repeatable).",
        ),
    ] = None,
    build: Annotated[
        list[str] | None,
        typer.Option(
            "--build",
            metavar="NAME=VALUE",
            help="Measure only this value of a build parameter, e.g. m=16, of a report's grid"
            " (repeatable).",
        ),
    ] = None,
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithful",
            help="Use the report's own method instead of Vectrial's, as far as possible. The method"
            " notes list the differences.",
        ),
    ] = False,
    memory_limit: Annotated[
        bool,
        typer.Option(
            "--memory-limit",
            help="Limit the memory of each server to what the report's systems had.",
        ),
    ] = False,
    repeats: options.RepeatsOption = 1,
    dry_run: options.DryRunOption = False,
    form: Annotated[
        ReproductionFormat,
        typer.Option(
            "--format",
            "-f",
            help="Output format of the cells. jsonl: one object per cell. html: only the path of"
            " the page; with --show, the page itself.",
        ),
    ] = ReproductionFormat.TABLE,
    show: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Print the tables of this folder again; measure and write nothing.",
        ),
    ] = None,
    resume: options.ResumeOption = None,
    out: options.OutOption = options.RUNS,
    allow_exposed: options.ExposedOption = False,
) -> None:
    """Measure a published REPORT again, in its own tables.

    \b
    vectrial reproduce                               list the reports
    vectrial reproduce docarray-sift1m --dry-run     print the plan
    vectrial reproduce docarray-sift1m --scale 0.1   with 10 % of its rows
    vectrial reproduce docarray-sift1m --scale 1 --build m=16 --build ef_construction=64
    vectrial reproduce --resume FOLDER --part glove  continue with this part
    vectrial reproduce --show FOLDER -f md           the tables as Markdown
    vectrial reproduce --show FOLDER -f html         the page with its figures (one HTML file)

    Each cell shows the published value, the measured value and their ratio, or the reason why a
    value is missing. Progress goes to stderr, the cells to stdout. The folder keeps the runs, the
    tables (reproduction.md), the cells (reproduction.jsonl) and the page with the report's figures
    (report/report.html, figures/).
    """
    console = stderr_console()
    folder = show or resume
    if folder is None and name is None:
        _list(form)
        return
    if folder is None:
        assert name is not None
        report = REPRODUCTIONS.load(name)
        size = report.scale if scale is None else scale
        settings = Settings(
            size,
            tuple(store or ()),
            faithful,
            repeats,
            tuple(part or ()),
            memory_limit,
            builds=parameters(build or (), "--build"),
        )
    else:
        if show is not None and resume is not None:
            raise UserError("--show and --resume exclude each other", remedy="give one of them")
        if show is not None and dry_run:
            raise UserError(
                "--show measures nothing, with or without --dry-run",
                remedy="--resume FOLDER --dry-run prints what is left to measure",
            )
        chosen = any((build, faithful, memory_limit, repeats > 1, show and (store or part)))
        if name is not None or scale is not None or chosen:
            raise UserError(
                "the folder has its own report and settings",
                where=str(folder),
                remedy="leave REPORT, --scale, --build, --faithful, --memory-limit and --repeats"
                " out; with --resume, --store and --part choose what to continue",
            )
        begun = reproduction_folder.read(folder)
        report, settings = begun.report, begun.settings
    kinds, _ = registry.STORES.working()
    if show is None:
        parts = plan_parts(report, settings, kinds)
        selection = Selection() if folder is None else select(parts, store or (), part or ())
        plans = [(one, _plan_part(one, report, selection)) for one in parts]
        if dry_run:
            _dry_run(report, plans, kinds, form, folder)
            return
        if folder is None:
            folder = _new_folder(out, report)
        else:
            _check_same_data(folder, parts)
        _measure(report, settings, plans, folder, console, allow_exposed=allow_exposed)
    assert folder is not None
    _print(folder, kinds, form, console, write=show is None)
    console.print(f"folder: {folder}", soft_wrap=True, highlight=False)


def _list(form: ReproductionFormat) -> None:
    reports, broken = REPRODUCTIONS.working()
    warn_broken(broken)
    rows: list[dict[str, Any]] = [
        {"report": one.name, "title": one.title, "scale": one.scale}
        | {"figures": len(figures(one.name))}
        for one in reports.values()
    ]
    if form is ReproductionFormat.JSONL:
        print_json(rows)
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("report", no_wrap=True)
    for column in ("title", "figures", "default scale"):
        table.add_column(column, justify="left" if column == "title" else "right")
    for row in rows:
        table.add_row(row["report"], row["title"], str(row["figures"]), f"{row['scale']:g}")
    stdout_console().print(table)


def _check_same_data(folder: Path, parts: Sequence[PartPlan]) -> None:
    """Raise `UserError` if a part would continue on other data than it was begun on, because the
    datasets of the library have changed."""
    begun = reproduction_folder.read(folder).parts
    for part in parts:
        was = begun.get(part.part.name)
        if part.suite is not None and was and was != {"dataset": part.dataset, "rows": part.rows}:
            raise UserError(
                f"'{part.part.name}' was begun on {was['rows']:,} rows of {was['dataset']}, and"
                f" would go on with {part.rows:,} of {part.dataset}, which has come since",
                where=str(folder),
                remedy="begin a new one",
            )


def _new_folder(out: Path, report: Reproduction) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return (out / f"{stamp}-reproduce-{report.name}").resolve()


def _plan_part(part: PartPlan, report: Reproduction, selection: Selection) -> Plan | None:
    if part.suite is None:
        return None
    return selection.plan(part, plan_of(part.suite, report.name))


def _dry_run(
    report: Reproduction,
    plans: Plans,
    kinds: Mapping[str, type[Store]],
    form: ReproductionFormat,
    folder: Path | None,
) -> None:
    from vectrial_reproduce.reports.collect import is_figure_of, places

    remaining = ((part, plan and _remaining_plan(plan, part, folder)) for part, plan in plans)
    if form is ReproductionFormat.JSONL:
        for part, plan in remaining:
            print_json(_part_objects(report, part, plan))
        return
    console = stdout_console()
    busy = slowdown()
    for part, plan in remaining:
        title = f"{part.part.title} ({part.part.name})"
        console.print(f"{title}: {part.rows:,} rows of {part.dataset}", highlight=False)
        if plan is None:
            console.print(f"  {_NOTHING}")
        elif plan.is_empty:
            console.print("  nothing remains to be measured")
        else:
            console.print(dry_run_table(plan, busy))
    every = figures(report.name)
    comparable = 0
    for figure in every:
        arms = [arm for part, _ in places(report, figure) for arm in part.arms]
        comparable += any(is_figure_of(arm, figure) and arm.store in kinds for arm in arms)
    console.print(
        f"{comparable} of {len(every)} published figures have something to be compared with here;"
        " the others say why not."
    )


def _remaining_plan(plan: Plan, part: PartPlan, folder: Path | None) -> Plan:
    """The plan of a part without the trials that `folder` has; without a folder, the whole plan."""
    if folder is None:
        return plan
    return run_command.remaining_plan(plan, folder / part.part.name, stderr_console())


def _part_objects(
    report: Reproduction, part: PartPlan, plan: Plan | None
) -> Iterator[dict[str, Any]]:
    """The plan of a part, or one object if nothing of it can be measured."""
    shared = {"report": report.name, "part": part.part.name}
    if plan is not None:
        yield from plan_objects(plan, shared)
        return
    loaded = {"dataset": part.dataset, "rows": part.rows}
    yield {**shared, "kind": "skipped", **loaded, "reason": _NOTHING}


def _measure(
    report: Reproduction,
    settings: Settings,
    plans: Plans,
    folder: Path,
    console: Console,
    *,
    allow_exposed: bool,
) -> None:
    measurable = [(part, plan) for part, plan in plans if plan is not None and not plan.is_empty]
    for _, plan in measurable:
        check_machine(plan)
        check_memory(plan)
    folder.mkdir(parents=True, exist_ok=True)
    reproduction_folder.begin(folder, report, settings, [part for part, _ in plans])
    for part, plan in measurable:
        console.print(f"{part.part.title}: {part.rows:,} rows of {part.dataset}", highlight=False)
        assert part.suite is not None
        run_command.measure(
            plan,
            part.suite,
            toml_of(part.suite),
            folder / part.part.name,
            console,
            MeasureSettings(allow_exposed=allow_exposed),
            again=f"vectrial reproduce --resume {folder}",
        )


def _print(
    folder: Path,
    kinds: Mapping[str, type[Store]],
    form: ReproductionFormat,
    console: Console,
    *,
    write: bool,
) -> None:
    """Print the cells of a folder. write: first write them to the folder, with the page and its
    figures; `html` then prints only the path of the page."""
    # Imported here: the chart library takes a while, and measuring does not need it.
    from vectrial.document.render import html, markdown, terminal
    from vectrial_reproduce.reports.jsonl import jsonl
    from vectrial_reproduce.reports.page import with_drawn_figures as with_figures
    from vectrial_reproduce.reports.page_tables import Layout
    from vectrial_reproduce.reports.result import result_of

    result = result_of(folder, kinds)

    def as_markdown() -> str:
        page = with_figures(result.page(Layout.CELLS), folder / _FIGURES)
        return markdown.render(page, _FIGURES)

    def as_lines() -> str:
        return "".join(f"{line}\n" for line in jsonl(result.cells))

    if write:
        path = _draw(result.page(Layout.COLUMNS), folder, console)
        (folder / "reproduction.md").write_text(as_markdown(), encoding="utf-8")
        (folder / "reproduction.jsonl").write_text(as_lines(), encoding="utf-8")
    match form:
        case ReproductionFormat.HTML:
            print(path if write else html.render(result.page(Layout.COLUMNS)))
        case ReproductionFormat.JSONL:
            print(as_lines(), end="")
        case ReproductionFormat.MARKDOWN:
            print(as_markdown(), end="")
        case ReproductionFormat.TABLE:
            console = CleanConsole()
            console.width = max(console.width, _WIDTH)
            console.print(terminal.render(result.page(Layout.LIST)))


def _draw(page: Report, folder: Path, console: Console) -> Path:
    """Write the page and its figures."""
    from vectrial.document.render import export

    with console.status("drawing") as status:
        export.write_figures(page, folder, lambda name: status.update(f"drawing {name}"))
        return export.write_html(page, export.make_folder(folder / _REPORT))
