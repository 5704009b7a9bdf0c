"""A site from runs: every run read once, in several processes, and put in place in one step."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vectrial.document.blocks import Report
from vectrial.model.errors import UserError
from vectrial.model.progress import Progress
from vectrial.util.process import die_with_parent
from vectrial.util.scratch import ScratchFolder
from vectrial_web.site import pages, places, subject_pages
from vectrial_web.site.places import MARKER, SitePlace
from vectrial_web.site.questions import QUESTIONS
from vectrial_web.site.run_pages import (
    Input,
    PageTask,
    RunResult,
    inputs_of,
    write_files,
    write_page,
    write_run,
)

#: First line of a site's marker; then come the names of what was written beside it.
_MADE = "vectrial site"
#: Figures that are drawn on the pages of all runs together: each takes a tenth of a second, thrice.
FIGURES = 300


@dataclass(frozen=True)
class SiteOptions:
    """Options of a site, with its title. base_url: its address, for figures to embed; empty: none.
    figures: number per run; None: as many as `FIGURES` allows. processes: number that read runs."""

    title: str = "Vectrial results"
    base_url: str = ""
    figures: int | None = None
    processes: int = 1


def build(
    paths: Sequence[Path], out: Path, options: SiteOptions, progress: Progress
) -> list[RunResult]:
    """Write the site of all runs below the paths into a folder; returns the result for each run.

    Raises:
        UserError: there is no run, no run can be read, or the folder holds something else.
    """
    check(out)
    inputs = inputs_of(paths)
    out.parent.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(f".{out.name}-", out.parent) as scratch:
        root = scratch / "site"
        root.mkdir(mode=0o755)
        results = _without_duplicates(_runs(inputs, root, options, progress), root)
        if not any(one.facts for one in results):
            raise UserError(
                f"no run can be read: {results[0].why}", where=", ".join(map(str, paths))
            )
        progress(len(inputs), len(inputs), "writing pages of questions, stores and datasets")
        write_site(pages.Site(options.title, tuple(results)), root, options)
        written = sorted(one.name for one in root.iterdir())
        (root / MARKER).write_text("\n".join([_MADE, *written, ""]), encoding="utf-8")
        _keep_others(out, root)
        _swap(root, out, scratch / "before")
    return results


def check(out: Path) -> None:
    """Raise `UserError` unless a site may be written to a folder."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError("this is a file", where=str(out), remedy="give a folder with --out")
    if any(out.iterdir()) and not (out / MARKER).is_file():
        raise UserError(
            "the folder holds something else than a site",
            where=str(out),
            remedy="give an empty folder, a new one, or that of an earlier site",
        )


def _keep_others(out: Path, root: Path) -> None:
    """Copy what lies in an earlier site and was not written by it, such as `.git` and `CNAME`. The
    marker of an earlier version of Vectrial does not name what was written."""
    if not out.exists():
        return
    made, *names = (out / MARKER).read_text(encoding="utf-8").splitlines() or [""]
    has_names = made == _MADE and bool(names)
    for one in out.iterdir():
        is_other = one.name not in names if has_names else one.name[0] == "." or one.name == "CNAME"
        if is_other and one.name != MARKER and not (root / one.name).exists():
            if one.is_dir() and not one.is_symlink():
                shutil.copytree(one, root / one.name, symlinks=True)
            else:
                shutil.copy2(one, root / one.name, follow_symlinks=False)


def _swap(root: Path, out: Path, before: Path) -> None:
    """Replace the old site with the new one."""
    if out.exists():
        out.rename(before)
    try:
        root.rename(out)
    except OSError:
        with suppress(OSError):
            before.rename(out)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _runs(
    inputs: Sequence[Input], root: Path, options: SiteOptions, progress: Progress
) -> list[RunResult]:
    figures = options.figures
    if figures is None:
        figures = max(1, FIGURES // len(inputs))
    tasks = [PageTask(one, root, options.title, figures, options.base_url) for one in inputs]
    progress(0, len(tasks), "reading runs")
    if options.processes <= 1 or len(tasks) == 1:
        results = []
        for number, task in enumerate(tasks, 1):
            results.append(write_run(task))
            progress(number, len(tasks), "reading runs")
        return results
    found: dict[int, RunResult] = {}
    # A process that is forked would lack the threads that draw and read.
    context = multiprocessing.get_context("spawn")
    try:
        processes = min(options.processes, len(tasks))
        with ProcessPoolExecutor(processes, context, _begin_worker, (os.getpid(),)) as pool:
            work = {pool.submit(write_run, task): number for number, task in enumerate(tasks)}
            try:
                for done in as_completed(work):
                    found[work[done]] = done.result()
                    progress(len(found), len(tasks), "reading runs")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool as error:
        raise UserError(
            "a process that read runs was ended, as by a lack of memory",
            where=f"after {len(found)} of {len(tasks)} runs",
            remedy="fewer processes: --jobs 1",
        ) from error
    return [found[number] for number in range(len(tasks))]


def _without_duplicates(results: Sequence[RunResult], root: Path) -> list[RunResult]:
    """The results with each run once. If a run is also there as a bundle, or twice, a folder is
    shown, since it may hold more, and the others say so."""
    shown: dict[tuple[str, float], RunResult] = {}
    for one in sorted(results, key=lambda result: result.source.path.is_file()):
        if one.run is not None:
            shown.setdefault(one.run, one)
    found = []
    for one in results:
        first = one if one.run is None else shown[one.run]
        if first is one:
            found.append(one)
            continue
        shutil.rmtree(root / "runs" / one.source.id)
        found.append(RunResult(one.source, f"it is the run of {first.source.name}, which is shown"))
    return found


def _begin_worker(parent: int) -> None:
    """Prepare a process that reads runs: it ends with the command, which alone hears Ctrl-C, and
    collects garbage less often: a run's objects live until its pages are written, and collecting at
    the usual rate takes a tenth of the time."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(50_000)


def processors() -> int:
    """Number of processes for the processors of this machine."""
    return min(8, len(os.sched_getaffinity(0)))


def write_site(site: pages.Site, root: Path, options: SiteOptions) -> None:
    """Write the pages of many runs below the root."""
    report, cards = pages.front_page(site)
    _write(site, root, options, places.HOME, report, "index.html.j2", cards=cards)
    for question in QUESTIONS:
        page = places.question_page(question.name)
        _write(site, root, options, page, pages.question_report(site, question))
    for kind in ("stores", "datasets"):
        _write(site, root, options, f"{kind}.html", subject_pages.listing(site, kind))
    for store in site.stores:
        _write(
            site, root, options, places.store_page(store), subject_pages.store_report(site, store)
        )
    for dataset in site.datasets:
        page = places.dataset_page(dataset)
        _write(site, root, options, page, subject_pages.dataset_report(site, dataset))
    _write(site, root, options, places.VERSIONS, subject_pages.versions_report(site))
    _write(site, root, options, places.RUNS, subject_pages.runs_report(site))


#: Pages above those of a folder.
_ABOVE = {"questions": ("Questions", places.HOME), "stores": ("Stores", "stores.html"),
          "datasets": ("Datasets", "datasets.html")}  # fmt: skip


def _write(
    site: pages.Site,
    root: Path,
    options: SiteOptions,
    page: str,
    report: Report,
    template: str = "site.html.j2",
    **context: object,
) -> None:
    folder, slash, _ = page.partition("/")
    crumbs: tuple[tuple[str, str], ...] = ()
    if slash:
        name, above = _ABOVE[folder]
        crumbs = ((site.title, f"../{places.HOME}"), (name, f"../{above}"))
    elif page != places.HOME:
        crumbs = ((site.title, places.HOME),)
    files = f"files/{page.removesuffix('.html')}"
    place = SitePlace(page, crumbs, files=files, base_url=options.base_url)
    write_page(root, place, report, site.title, template=template, **context)
    write_files(root, place, report)
