"""`vectrial bundle`: a run as one sealed file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, say, stderr_console
from vectrial.model.errors import UserError
from vectrial.results import bundle as bundles
from vectrial.results.bundle import SUFFIX, Bundle


def bundle(
    run: options.RunArgument = options.LATEST,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Output file (*.gz) or folder.",
            show_default=f"beside RUN, RUN{SUFFIX}",
        ),
    ] = None,
    unpack: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Unpack the run of a bundle into this new folder."),
    ] = None,
    seal: options.SealOption = None,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Seal a RUN into one file: suite, results, environment and logs, with checksums.

    \b
    vectrial bundle                              the newest run
    vectrial bundle runs/20261121-120000-mine    that one
    vectrial bundle theirs.vectrial.tar.gz       check a bundle
    vectrial bundle theirs.vectrial.tar.gz --seal 5d1f…
    vectrial bundle theirs.vectrial.tar.gz --unpack runs/theirs
    vectrial run --from theirs.vectrial.tar.gz   repeat it here

    The last line on stdout is the file; the seal goes to stderr. Send the seal over another channel
    than the file: a check with --seal then proves that nothing was changed. A bundle holds no
    report (`vectrial report BUNDLE` makes one) and no dataset: to repeat a run on your own data,
    send the data as well and import it.

    Exit codes: 0 success, 2 no run, a damaged bundle, or another seal.
    """
    console = stderr_console()
    if run.is_file() and out is not None:
        raise UserError(
            "--out is where a bundle is written, and this is one already",
            where=str(run),
            remedy="--unpack FOLDER unpacks its run; without either it is checked",
        )
    if not run.is_file() and (unpack is not None or seal is not None):
        verb = "unpacked" if unpack is not None else "held against a seal"
        raise UserError(
            f"only a bundle can be {verb}", where=str(run), remedy=f"give a file *{SUFFIX}"
        )
    if not run.is_file():
        with console.status("sealing"):
            made = bundles.seal(run, out)
    elif unpack is not None:
        made = bundles.unpack(run, unpack, seal)
    else:
        with bundles.open_bundle(run, seal) as (made, _):
            pass
    if form is Format.JSONL:
        folder = {} if unpack is None else {"folder": str(unpack)}
        print_json([{**_bundle_object(made), **folder}])
        return
    manifest = made.manifest
    size = f"{len(manifest.files)} files, {made.size_bytes / 1e6:.1f} MB packed"
    started = f"run {manifest.run_id}, started {manifest.started_at}"
    say(console, f"{manifest.suite_name}, {started}: {size}")
    say(console, f"seal: {made.seal}")
    print(made.path if unpack is None else unpack)


def _bundle_object(bundle: Bundle) -> dict[str, object]:
    return {
        "bundle": str(bundle.path),
        "seal": bundle.seal,
        "size_bytes": bundle.size_bytes,
        **bundle.manifest.model_dump(mode="json"),
    }
