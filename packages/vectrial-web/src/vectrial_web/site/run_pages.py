"""The runs that a site is made of, folders and bundles below some paths, the pages of each, and
what it leaves for the pages of many."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vectrial.analysis.run_data import RunData, data_of
from vectrial.document.blocks import Block, Figure, Report, Section
from vectrial.document.render import draw, html
from vectrial.model.errors import UserError, VectrialError
from vectrial.report.build import build
from vectrial.results.bundle import SUFFIX, run_folder
from vectrial.results.database import DATABASE
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader
from vectrial.util import formatting
from vectrial.util.file_names import slug
from vectrial.util.version import version
from vectrial_web.serve.files import DATA, table_file, tables_of
from vectrial_web.site.entries import RunFacts, StoreEntry, entries_of
from vectrial_web.site.glances import FrontPoint, Glance, fronts_of, glances_of
from vectrial_web.site.places import MARKER, SitePlace, run_page
from vectrial_web.site.questions import machine_of
from vectrial_web.site.values import Values

#: Folders in a run's folder that hold no run.
_NOT_RUNS = ("work", "logs", "report")
#: The name of a bundle that says nothing of the run: its folder does.
_PLAIN = f"run{SUFFIX}"


@dataclass(frozen=True)
class Input:
    """A run on disk. id: its folder in the site. name: its path below the given path."""

    id: str
    path: Path
    name: str


def inputs_of(paths: Sequence[Path]) -> list[Input]:
    """Every run and bundle at or below the paths, each once, sorted by name.

    Raises:
        UserError: a path does not exist, or there is no run at all.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if not path.exists():
            raise UserError("there is no such file or folder", where=str(path))
        for run in _runs_below(path):
            found.setdefault(run.resolve(), _name(run, path))
    if not found:
        raise UserError(
            "no run here",
            where=", ".join(map(str, paths)),
            remedy="give a folder of runs or of bundles; vectrial run makes ./runs",
        )
    taken: dict[str, int] = {}
    inputs = []
    for path, name in sorted(found.items(), key=lambda item: item[1]):
        short = slug(name)
        taken[short] = taken.get(short, 0) + 1
        number = f"-{taken[short]}" if taken[short] > 1 else ""
        inputs.append(Input(f"{short}{number}", path, name))
    return inputs


def _runs_below(path: Path) -> Iterator[Path]:
    """Runs and bundles at a path and below it, except the copies in a site. Links to folders are
    not followed further down."""
    if path.is_file() or (path / DATABASE).is_file():
        yield path
        return
    for folder, inside, files in os.walk(path):
        here = Path(folder)
        if MARKER in files and here != path:
            inside.clear()
            continue
        if here != path and DATABASE in files:
            inside.clear()
            yield here
            continue
        inside[:] = sorted(
            name for name in inside if not name.startswith(".") and name not in _NOT_RUNS
        )
        yield from (here / name for name in sorted(files) if name.endswith(SUFFIX))


def _name(run: Path, below: Path) -> str:
    where = run if run.name != _PLAIN else run.parent
    name = where.relative_to(below).as_posix() if where.is_relative_to(below) else where.name
    name = name.removesuffix(SUFFIX)
    return where.resolve().name.removesuffix(SUFFIX) if name in (".", "") else name


TEMPLATES = Path(__file__).parent / "templates"
#: Tables of a run as Parquet: those that its figures rest on, and the rest, which a bundle has too.
_TABLES = ("trial", "phase", "metric")
_MORE = ("window", "telemetry", "gate", "error")
_TEXTS = ("suite.toml", "environment.json")


@dataclass(frozen=True)
class RunResult:
    """The data of a run for pages of many runs. why: why it could not be read, if there is nothing
    else. wrong: stores that failed the gate. run: its name and the second that it began, which a
    copy shares."""

    source: Input
    why: str = ""
    facts: RunFacts | None = None
    stores: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    trials: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    wrong: tuple[str, ...] = ()
    entries: tuple[StoreEntry, ...] = ()
    glances: tuple[Glance, ...] = ()
    fronts: tuple[FrontPoint, ...] = ()
    run: tuple[str, float] | None = None


@dataclass(frozen=True)
class PageTask:
    """Task of a process: a run, the root of the site, its title, how many figures of the run are
    drawn, and the address of the site, for figures to embed."""

    source: Input
    root: Path
    title: str
    figures: int
    base_url: str = ""


def write_run(task: PageTask) -> RunResult:
    """Write the pages of a run below the root; a run that cannot be read leaves none."""
    source = task.source
    folder = task.root / "runs" / source.id
    try:
        with foreign_value_errors(source.name), run_folder(source.path) as run:
            with RunReader(run) as reader:
                data = data_of(reader)
                folder.mkdir(parents=True)
                raw = _copy_measurements(reader, source, folder)
            return _write_pages(task, data, folder, raw)
    except VectrialError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return RunResult(source, str(error))
    except OSError as error:
        if not source.path.exists():
            shutil.rmtree(folder, ignore_errors=True)
            return RunResult(source, f"it cannot be read: {error}")
        raise UserError(f"the site cannot be written: {error}", where=str(folder)) from error


def _copy_measurements(reader: RunReader, source: Input, folder: Path) -> list[str]:
    """Copy the measurements into the folder; returns the names of the files."""
    bundled = source.path.is_file()
    found = {}
    for name in _TEXTS:
        with suppress(FileNotFoundError):  # an earlier version's run
            found[name] = DATA[name](reader.folder)
    found |= tables_of(reader, (*_TABLES, *(() if bundled else _MORE)))
    for name, content in found.items():
        (folder / name).write_bytes(content)
    written = list(found)
    if bundled:
        bundle = f"{source.id}{SUFFIX}"  # whoever sent the file chose its own name
        shutil.copyfile(source.path, folder / bundle)
        written.insert(0, bundle)
    return written


def _write_pages(task: PageTask, run: RunData, folder: Path, raw: Sequence[str]) -> RunResult:
    source = task.source
    below = f"runs/{source.id}"
    began = run.run["started_at"]
    facts = RunFacts(
        source.id, str(run.run["suite_name"]), source.name,
        began.timestamp() if began is not None else 0.0, str(run.run["vectrial_version"]),
        machine_of(run), run_page(source.id),
    )  # fmt: skip
    values = Values(run, below)
    report = _with_fewer_figures(build(run), task.figures)
    result = RunResult(
        source, "", facts, run.stores, tuple(dict.fromkeys(t.dataset for t in run.trials)),
        tuple(dict.fromkeys(t.experiment for t in run.trials)), len(run.trials),
        tuple(Counter(t.status for t in run.trials).items()),
        tuple(dict.fromkeys(t.series.store for t in run.trials if run.why_wrong(t))),
        tuple(entries_of(run, facts, values.address)),
        tuple(glances_of(run, report, facts, values.address)),
        tuple(fronts_of(run, facts, values.address)), (str(run.run["run_id"]), facts.started_s),
    )  # fmt: skip
    _write_report(task, report, values, raw)
    _write_values(task, report, values)
    return result


def _with_fewer_figures(report: Report, most: int) -> Report:
    """The report with its first figures only."""
    every = report.figures()
    if len(every) <= most:
        return report
    kept = {figure.name for figure in every[:most]}

    def blocks(section: Section) -> tuple[Block, ...]:
        return tuple(b for b in section.blocks if not isinstance(b, Figure) or b.name in kept)

    sections = tuple(replace(section, blocks=blocks(section)) for section in report.sections)
    note = (
        f"This page shows {most} of {formatting.plural(len(every), 'figure')}; vectrial report"
        " draws all of them."
    )
    warnings = (*report.warnings, note)
    return replace(report, sections=tuple(s for s in sections if s.blocks), warnings=warnings)


def _write_report(task: PageTask, report: Report, values: Values, raw: Sequence[str]) -> None:
    below = f"runs/{task.source.id}"
    links = [("Values", values.page_of(1).rpartition("/")[2])] if values.pages else []
    place = SitePlace(
        run_page(task.source.id),
        (("Home", "../../index.html"), ("Runs", "../../runs.html")),
        (*links, *((name, name) for name in raw)),
        f"{below}/files",
        source_of=values.address,
        base_url=task.base_url,
    )
    write_page(task.root, place, report, task.title, template="run.html.j2")
    write_files(task.root, place, report)


def _write_values(task: PageTask, report: Report, values: Values) -> None:
    below = f"runs/{task.source.id}"
    crumbs = (
        ("Home", "../../index.html"), ("Runs", "../../runs.html"), (report.title, "index.html"),
    )  # fmt: skip
    pages = [values.page_of(number).rpartition("/")[2] for number in range(1, values.pages + 1)]
    for number in range(1, values.pages + 1):
        place = SitePlace(values.page_of(number), crumbs)
        about = "Every measured point with its conditions, and every value of its repeats."
        shown = Report("Values", about)
        write_page(
            task.root, place, shown, task.title, template="values.html.j2",
            points=values.page(number), pages=pages, number=number, derived=(),
        )  # fmt: skip
    if values.derived:
        place = SitePlace(f"{below}/{values.derived_page.rpartition('/')[2]}", crumbs)
        shown = Report("Figures of several points", "Ratios, and values read off between points.")
        write_page(
            task.root, place, shown, task.title, template="values.html.j2", points=(), pages=(),
            number=0, derived=values.derived,
        )  # fmt: skip


def write_page(
    root: Path,
    place: SitePlace,
    report: Report,
    site: str,
    *,
    template: str = "site.html.j2",
    **context: object,
) -> None:
    """Write a page of the site. site: title of the site."""
    context |= {"site": site, "plural": formatting.plural, "version": version()}
    made = html.page(report, place, template=template, more=TEMPLATES, **context)
    path = root / place.page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.text, encoding="utf-8")


def write_files(root: Path, place: SitePlace, report: Report) -> None:
    """Write a report's tables as JSON and Parquet, and its figures as SVG."""
    folder = root / place.files
    folder.mkdir(parents=True, exist_ok=True)
    for table in report.tables():
        for kind in place.kinds.table:
            (folder / f"{table.name}.{kind}").write_bytes(table_file(table, kind))
    for figure in report.figures():
        (folder / f"{figure.name}.svg").write_text(draw.standalone_svg(figure), encoding="utf-8")
