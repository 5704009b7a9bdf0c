"""`vectrial reproduce`: a published report measured again, published beside measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tomli_w
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from vectrial.cli import run as run_command
from vectrial.cli.form import CleanConsole, on_stderr, on_stdout, warn_of
from vectrial.cli.one_store import ExposedOption
from vectrial.cli.run_view import dry_run_table, plan_lines
from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.plan.plan import Plan
from vectrial.reports import REPRODUCTIONS
from vectrial.reports.model import Reproduction
from vectrial.reports.planning import PartPlan, Settings, plan_parts
from vectrial.reports.published import figures
from vectrial.results.database import DATABASE
from vectrial.run.prepare import check_machine, plan_of
from vectrial.stores import registry
from vectrial.suite.model import Suite

if TYPE_CHECKING:
    from vectrial.document.blocks import Report

#: What a folder of a reproduction says of itself.
MANIFEST = "reproduction.json"
#: Of it the folder of the page, and that of the figures, which lies beside the tables that show
#: them: the two are copied as they are.
_REPORT, _FIGURES = "report", "figures"
#: Characters of a line of figures at least.
_WIDTH = 110


class Format(StrEnum):
    """What the cells are written as."""

    TABLE = "table"
    MARKDOWN = "md"
    JSONL = "jsonl"
    HTML = "html"


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPORT]", help="Report to reproduce. Without it, list the reports."
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            help="Share of the report's rows; 1 is its full size. The list shows the default."
        ),
    ] = None,
    store: Annotated[
        list[str] | None, typer.Option(help="Measure only this store (repeatable).")
    ] = None,
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithful",
            help="Use the report's own method instead of Vectrial's, as far as possible. The method"
            " notes list the differences.",
        ),
    ] = False,
    repeats: Annotated[
        int,
        typer.Option(min=1, max=1000, help="Number of repeats; three or more give a spread."),
    ] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan; measure nothing.")
    ] = False,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="Output format of the cells. html: print only the path of the page.",
        ),
    ] = Format.TABLE,
    show: Annotated[
        Path | None,
        typer.Option(help="Print the tables of this folder again; measure nothing."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Complete the reproduction in this folder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the new folder.")] = Path("runs"),
    allow_exposed: ExposedOption = False,
) -> None:
    """Measure a published REPORT again, in its own tables.

    Each cell shows the published value, the measured value and their ratio, or the reason why a
    value is missing.

    \b
    vectrial reproduce                                   list the reports
    vectrial reproduce docarray-sift1m --dry-run         print the plan
    vectrial reproduce docarray-sift1m --scale 0.1       with 10 % of its rows
    vectrial reproduce --show FOLDER -f md               the tables as Markdown
    vectrial reproduce --show FOLDER -f html             the page with its figures

    Progress goes to stderr, the cells to stdout. The folder keeps the runs, the tables
    (reproduction.md), the cells (reproduction.jsonl) and the page with the report's figures
    (report/report.html, figures/).
    """
    console = on_stderr()
    if show is not None and resume is not None:
        raise UserError("--show and --resume exclude each other", remedy="give one of them")
    if show is not None and dry_run:
        raise UserError(
            "--show measures nothing, with or without --dry-run",
            remedy="--resume FOLDER --dry-run says what is left to measure",
        )
    folder = show or resume
    if folder is not None and name is not None:
        raise UserError(
            "the folder says which report it is of", where=str(folder), remedy=f"leave {name} out"
        )
    if folder is not None:
        if scale is not None or store or faithful or repeats > 1:
            raise UserError(
                "the folder says what was asked for",
                where=str(folder),
                remedy="leave --scale, --store, --faithful and --repeats out, or begin a new one",
            )
        report, settings = _kept(folder)
    elif name is None:
        _list(format_)
        return
    else:
        report = _report(name)
        size = report.scale if scale is None else scale
        settings = Settings(size, tuple(store or ()), faithful, repeats)
    kinds, _ = registry.STORES.working()
    parts = plan_parts(report, settings, kinds)
    if dry_run:
        _dry_run(report, parts, kinds, format_, folder)
        return
    if show is None:
        if folder is None:
            folder = _new_folder(out, report)
        else:
            _refuse_other_data(folder, parts)
        _measure(report, settings, parts, folder, console, allow_exposed=allow_exposed)
    assert folder is not None
    _write(report, settings, folder, kinds, format_, console, drawn=show is None)
    console.print(f"folder: {folder}", soft_wrap=True, highlight=False)


def _report(name: str) -> Reproduction:
    return REPRODUCTIONS.load(name)


def _list(form: Format) -> None:
    reports, broken = REPRODUCTIONS.working()
    warn_of(broken)
    if form is Format.JSONL:
        for report in reports.values():
            told = {"report": report.name, "title": report.title, "scale": report.scale}
            print(json.dumps({**told, "figures": len(figures(report.name))}))
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("report", no_wrap=True)
    for column in ("what", "figures", "default scale"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for report in reports.values():
        count = str(len(figures(report.name)))
        table.add_row(report.name, report.title, count, f"{report.scale:g}")
    on_stdout().print(table)


def _kept(folder: Path) -> tuple[Reproduction, Settings]:
    """The report and settings of a folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(
            "there is no reproduction here",
            where=str(folder),
            remedy="give the folder that `vectrial reproduce` printed",
        )
    kept = json.loads(path.read_text(encoding="utf-8"))
    settings = Settings(kept["scale"], tuple(kept["stores"]), kept["faithful"], kept["repeats"])
    return _report(kept["report"]), settings


def _refuse_other_data(folder: Path, parts: list[PartPlan]) -> None:
    """Raise `UserError` where a part would go on with other data than it was begun with, since
    the datasets that are here have changed."""
    kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["parts"]
    for part in parts:
        was = kept.get(part.part.name)
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


def _dry_run(
    report: Reproduction,
    parts: list[PartPlan],
    kinds: Mapping[str, type[Store]],
    form: Format,
    folder: Path | None,
) -> None:
    from vectrial.reports.collect import places

    if form is Format.JSONL:
        for part in parts:
            for line in _part_lines(report, part, folder):
                print(line)
        return
    console = on_stdout()
    for part in parts:
        console.print(f"{part.part.title}: {part.rows:,} rows of {part.dataset}")
        if part.suite is None:
            console.print("  none of its stores is here or was asked for")
        else:
            console.print(dry_run_table(_plan(part, part.suite, report, folder)))
    every = figures(report.name)
    can = 0
    for figure in every:
        arms = [arm for part, _ in places(report, figure) for arm in part.arms]
        can += any(arm.published == figure.store and arm.store in kinds for arm in arms)
    console.print(
        f"{can} of {len(every)} published figures have something to be compared with here;"
        " the others say why not."
    )


def _plan(part: PartPlan, suite: Suite, report: Reproduction, folder: Path | None) -> Plan:
    """Of a part; of one that is gone on with, what is left of it."""
    plan = plan_of(suite, report.name)
    if folder is None:
        return plan
    return run_command.left_of(plan, folder / part.part.name, on_stderr())


def _part_lines(report: Reproduction, part: PartPlan, folder: Path | None) -> Iterator[str]:
    """A part's plan for programs; one line where nothing of it can be measured."""
    about = {"report": report.name, "part": part.part.name}
    if part.suite is not None:
        yield from plan_lines(_plan(part, part.suite, report, folder), about)
        return
    reason = "none of its stores is here or was asked for"
    loaded = {"dataset": part.dataset, "rows": part.rows}
    yield json.dumps({**about, "kind": "skipped", **loaded, "reason": reason})


def _measure(
    report: Reproduction,
    settings: Settings,
    parts: list[PartPlan],
    folder: Path,
    console: Console,
    *,
    allow_exposed: bool,
) -> None:
    for part in parts:
        if part.suite is not None:
            check_machine(plan_of(part.suite, report.name))
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "report": report.name,
        "scale": settings.scale,
        "stores": list(settings.stores),
        "faithful": settings.faithful,
        "repeats": settings.repeats,
        "parts": {part.part.name: {"dataset": part.dataset, "rows": part.rows} for part in parts},
    }
    path = folder / MANIFEST
    if not path.exists():
        path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for part in parts:
        if part.suite is None:
            continue
        console.print(f"{part.part.title}: {part.rows:,} rows of {part.dataset}", highlight=False)
        plan = plan_of(part.suite, report.name)
        text = tomli_w.dumps(part.suite.model_dump(mode="json", exclude_none=True))
        again = f"vectrial reproduce --resume {folder}"
        run_command.measure(
            plan,
            part.suite,
            text,
            folder / part.part.name,
            console,
            again=again,
            allow_exposed=allow_exposed,
        )


def _write(
    report: Reproduction,
    settings: Settings,
    folder: Path,
    kinds: Mapping[str, type[Store]],
    form: Format,
    console: Console,
    *,
    drawn: bool,
) -> None:
    """Print the cells, and keep them in the folder; with the page where it is asked for or
    `drawn`."""
    # Imported here: the chart library behind it takes its time, and measuring needs it not.
    from vectrial.analysis.run_data import load
    from vectrial.reports import render
    from vectrial.reports.collect import Measured, cells
    from vectrial.reports.heading import heading_of
    from vectrial.reports.page import after_tables
    from vectrial.reports.page import build as page_of

    kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["parts"]
    measured = {
        name: Measured(load(folder / name), about["dataset"], about["rows"])
        for name, about in kept.items()
        if (folder / name / DATABASE).is_file()
    }
    every = cells(report, measured, known=kinds, asked=settings.stores, faithful=settings.faithful)
    about = heading_of(report, measured, settings)
    page = page_of(report, every, about, measured)
    path = _draw(page, folder, console) if drawn or form is Format.HTML else None
    after = after_tables(page, measured, folder / _FIGURES)
    text = render.markdown(report, every, about, after, _FIGURES)
    lines = list(render.jsonl(every))
    (folder / "reproduction.md").write_text(text, encoding="utf-8")
    (folder / "reproduction.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    match form:
        case Format.HTML:
            print(path)
        case Format.JSONL:
            for line in lines:
                print(line)
        case Format.MARKDOWN:
            print(text, end="")
        case Format.TABLE:
            console = CleanConsole()
            # Names and six figures need so much; a pipe has 80.
            console.width = max(console.width, _WIDTH)
            render.terminal(report, every, about, console)


def _draw(page: Report, folder: Path, console: Console) -> Path:
    """Write the page and its figures."""
    from vectrial.document.render import write

    with console.status("drawing") as status:
        write.write_figures(page, folder, lambda name: status.update(f"drawing {name}"))
        return write.write_html(page, write.made(folder / _REPORT))
