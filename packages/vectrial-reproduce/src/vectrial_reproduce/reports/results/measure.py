"""Measures a result, or goes on where it was interrupted, and seals it into its folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.analysis.interference import disturbed_keys
from vectrial.analysis.run_data import load
from vectrial.model.errors import UserError
from vectrial.report import pages
from vectrial.results.bundle import SUFFIX, seal
from vectrial.results.database import RunBeingWritten
from vectrial.util.children import python
from vectrial.util.scratch import ScratchFolder
from vectrial_reproduce.reports.folder import MANIFEST
from vectrial_reproduce.reports.results import code
from vectrial_reproduce.reports.results.declarations import CommittedResult
from vectrial_reproduce.reports.results.sealed import (
    RunOrigin,
    bundles,
    committed_state,
    facts,
    runs,
)

#: Name of a bundle in its folder.
BUNDLE = f"run{SUFFIX}"
#: Options of a run that its resuming does not take, each with a value.
_ONCE = ("--from", "--seal")


class NotMeasured(UserError):
    """The error that a result could not be measured; its committed state is unchanged."""


@dataclass(frozen=True)
class ResultFolders:
    """Folders of results and runs. results: folder of the committed results. runs: folder of the
    measurements, with a folder for each."""

    results: Path
    runs: Path


def measure(
    result: CommittedResult,
    places: ResultFolders,
    *,
    wait: Callable[[], None] | None = None,
    accept_fewer: bool = False,
) -> None:
    """Measure a result, or complete a run of it begun by the same code, and replace its committed
    state.

    Args:
        wait: returns when the machine is quiet; called before measuring. Trials that a busy machine
            disturbed nevertheless are measured once more. None: measure without waiting.
        accept_fewer: also if fewer trials have a result than those committed.

    Raises:
        NotMeasured: the command failed, or measured fewer trials.
        VectrialError: a run cannot be read or sealed.
    """
    own = places.runs / result.name
    own.mkdir(parents=True, exist_ok=True)
    begun = unsealed_run(result, places)
    if begun is None or not _is_complete(result, begun):
        if wait is not None:
            wait()
        _run(command(result, own, begun))
        begun = unsealed_run(result, places)
        if begun is None:
            raise NotMeasured("the command left no run", where=str(own))
        if wait is not None and result.is_run and disturbed_keys(load(begun)):
            wait()
            _run([*command(result, own, begun), "--remeasure-disturbed"])
    seal_into(result, begun, places.results, accept_fewer=accept_fewer)


def command(result: CommittedResult, folder: Path, run: Path | None) -> list[str]:
    """The words after `vectrial` that measure a result into its folder of runs, or complete a
    run."""
    form = ["--no-report"] if result.is_run else ["-f", "jsonl"]
    if run is None:
        return [*result.words, "--out", str(folder), *form]
    options = [] if result.is_reproduction else _options_to_repeat(result.words[1:])
    return [result.words[0], "--resume", str(run), *options, *form]


def _options_to_repeat(words: Sequence[str]) -> list[str]:
    """Options that a resumed run needs again, such as its stores."""
    found, skip = [], False
    for word in words:
        if not (skip or word in _ONCE or word.endswith(".toml")):
            found.append(word)
        skip = word in _ONCE
    return found


def unsealed_run(result: CommittedResult, places: ResultFolders) -> Path | None:
    """The newest run of a result that is not committed and was begun by the current code.

    Raises:
        UserError: it is being written.
    """
    folders = [path for path in (places.runs / result.name).glob("*") if not path.is_symlink()]
    for folder in sorted((path for path in folders if path.is_dir()), reverse=True):
        try:
            parts = {part: facts(run) for part, run in runs(folder).items()}
        except RunBeingWritten:
            raise
        except UserError:  # it did not come to its beginning
            continue
        if not parts:
            continue
        sealed = {one.started for one in committed_state(result, places.results).parts.values()}
        if sealed >= {one.started for one in parts.values()}:
            return None
        revisions = [revision for one in parts.values() for revision in one.revisions]
        return folder if code.commits_since(result, revisions) == 0 else None
    return None


def _is_complete(result: CommittedResult, run: Path) -> bool:
    """True if a run only has to be sealed. Later parts of a reproduction are not known here."""
    return not result.is_reproduction and all(facts(one).finished for one in runs(run).values())


def _run(words: Sequence[str]) -> None:
    """Run `vectrial` with these words; its progress goes to stderr."""
    process = subprocess.Popen(python("vectrial.cli.main", *words), stdout=subprocess.DEVNULL)
    try:
        status = process.wait()
    finally:
        if process.poll() is None:  # interrupted: it keeps what it has measured
            process.terminate()
            process.wait()
    if status:
        raise NotMeasured(f"exit code {status} of: vectrial {' '.join(words)}")


def seal_into(
    result: CommittedResult, run: Path, results: Path, *, accept_fewer: bool = False
) -> None:
    """Seal the parts of a run into a result's folder, with their pages.

    Raises:
        NotMeasured: fewer of its trials have a result than of those committed.
        VectrialError: it cannot be read or sealed.
    """
    parts = runs(run)
    _require_as_many(result, {part: facts(one) for part, one in parts.items()}, results, run,
                     accept_fewer=accept_fewer)  # fmt: skip
    folder = results / result.name
    folder.mkdir(parents=True, exist_ok=True)
    for part, one in parts.items():
        _replace(one, folder / part)
    for part, bundle in bundles(folder):
        if part not in parts:
            shutil.rmtree(bundle.parent)
    if result.is_reproduction:
        shutil.copyfile(run / MANIFEST, folder / MANIFEST)


def _require_as_many(
    result: CommittedResult,
    found: Mapping[str, RunOrigin],
    results: Path,
    run: Path,
    *,
    accept_fewer: bool,
) -> None:
    before = committed_state(result, results).measured
    now = sum(part.measured for part in found.values())
    if now < before and not accept_fewer:
        raise NotMeasured(
            f"{now:,} trials have a result, and {before:,} of those committed",
            where=str(run),
            remedy="its report says why; --accept-fewer commits it all the same",
        )


def _replace(run: Path, folder: Path) -> None:
    """Replace the bundle in a folder and its page; both are made before either is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(".sealing-", folder) as scratch:
        made = seal(run, scratch / BUNDLE).path
        page = pages.generate(made)
        made.replace(folder / BUNDLE)
    pages.save(page, folder)
