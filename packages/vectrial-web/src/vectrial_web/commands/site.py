"""`vectrial site`: static pages of many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, progress_bars, say, stderr_console
from vectrial.model.errors import UserError


def site(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUNS", help="Folders of runs or bundles, runs, or bundles."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the site.")] = Path("site"),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the site.")] = (
        "Vectrial results"
    ),
    base_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Address that the site will have: pages then show how to embed each figure.",
            show_default="none",
        ),
    ] = "",
    figures: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Draw at most N figures of each run.",
            show_default="300 over all runs, at least 1 of each",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            max=64,
            metavar="N",
            help="Processes that read runs.",
            show_default="the number of processors, at most 8",
        ),
    ] = None,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Write static pages of many runs: by question, store, dataset, version and run.

    \b
    vectrial site                                 ./runs into ./site
    vectrial site docs/results --out public       bundles, too, at any depth
    vectrial site runs theirs.vectrial.tar.gz     several folders, runs and bundles

    Any web server shows the pages, as does a browser without one (file://); they ask nobody for
    anything. Stores are ranked only where their repeats tell them apart, on the same data, load,
    machine and limits. Each table has JSON and Parquet beside it, each figure SVG.

    DIR must be new, empty, or an earlier site, which is replaced in one step. Runs that cannot be
    read are listed with the reason. The path of the front page goes to stdout; with --format jsonl
    an object for each run, with its page or why it was not read.

    Exit codes: 0 written, 2 no run can be read, or DIR holds something else.
    """  # fmt: skip
    # Imported here: the charts of pages take a while.
    from vectrial_web.site.build import SiteOptions, build, check, processors
    from vectrial_web.site.places import HOME

    check(out)
    if base_url and "://" not in base_url:
        raise UserError(f"'{base_url}' is not an address", where="--base-url", remedy="https://…")
    chosen = SiteOptions(title, base_url.rstrip("/"), figures, jobs or processors())
    with progress_bars() as progress:
        results = build(runs or [options.RUNS], out, chosen, progress)
    console = stderr_console()
    for one in results:
        if one.facts is None:
            say(console, f"{one.source.name}: not read: {one.why}")
    if form is Format.JSONL:
        pages = {one.source.id: one.facts and str(out / one.facts.address) for one in results}
        print_json(
            {"run": one.source.name, "page": pages[one.source.id], "why": one.why or None}
            for one in results
        )
    else:
        print(out / HOME)
