"""`vectrial bundle`: a run as one file that shows when it was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli.form import Form, FormOption, on_stderr, say
from vectrial.model.errors import UserError
from vectrial.results.bundle import SUFFIX, Bundle, opened, seal
from vectrial.results.bundle import unpack as lay_out


def bundle(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run folder to seal, or bundle to check."),
    ] = Path("runs/latest"),
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output file (*.gz) or folder.",
            show_default=f"beside RUN, RUN{SUFFIX}",
        ),
    ] = None,
    unpack: Annotated[
        Path | None, typer.Option(help="Unpack the run of a bundle into this new folder.")
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option("--seal", metavar="HEX", help="Refuse the bundle unless it has this seal."),
    ] = None,
    form: FormOption = Form.TABLE,
) -> None:
    """Seal a RUN into one file: suite, results, environment and logs, with checksums.

    \b
    vectrial bundle                                  the newest run, beside its folder
    vectrial bundle runs/20261121-120000-mine        that one
    vectrial bundle theirs.vectrial.tar.gz           check a bundle and print its content
    vectrial bundle theirs.vectrial.tar.gz --seal 5d1f…    and refuse it if it has another seal
    vectrial bundle theirs.vectrial.tar.gz --unpack runs/theirs
    vectrial run --from theirs.vectrial.tar.gz       repeat it here

    The last line on stdout is the file; the seal goes to stderr. Send the seal over another channel
    than the file: a check with --seal then proves that nothing was changed. A bundle holds no
    report (`vectrial report BUNDLE` makes one) and no dataset: to repeat a run on your own data,
    send the data as well and import it.
    Exit codes: 0 success, 2 no run, a damaged bundle, or another seal.
    """
    console = on_stderr()
    if run.is_file() and out is not None:
        raise UserError(
            "--out is where a bundle is written, and this is one already",
            where=str(run),
            remedy="--unpack FOLDER lays its run into a folder; without either it is checked",
        )
    if not run.is_file():
        if unpack is not None:
            raise UserError(
                "only a bundle can be unpacked", where=str(run), remedy=f"give a file *{SUFFIX}"
            )
        if expected is not None:
            raise UserError(
                "only a bundle can be held against a seal",
                where=str(run),
                remedy=f"give a file *{SUFFIX}",
            )
        with console.status("sealing"):
            made = seal(run, out)
    elif unpack is not None:
        made = lay_out(run, unpack, expected)
    else:
        with opened(run, expected) as (made, _):
            pass
    if form is Form.JSONL:
        folder = {} if unpack is None else {"folder": str(unpack)}
        print(json.dumps({**_described(made), **folder}))
        return
    told = made.manifest
    size = f"{len(told.files)} files, {made.size_bytes / 1e6:.1f} MB packed"
    say(console, f"{told.suite_name}, run {told.run_id}, started {told.started_at}: {size}")
    say(console, f"seal: {made.seal}")
    print(made.path if unpack is None else unpack)


def _described(made: Bundle) -> dict[str, object]:
    return {
        "bundle": str(made.path),
        "seal": made.seal,
        "size_bytes": made.size_bytes,
        **made.manifest.model_dump(mode="json"),
    }
