"""Sealed bundles: one file that holds a run, to be kept, sent, checked and repeated.

A bundle is a gzipped tar: `manifest.json` first, then the run's files under `run/`. The manifest
names every file with its size and SHA-256. The seal is the SHA-256 of the manifest, so anyone who
knows it can verify that nothing has changed. Without it only accidental changes are found: a
rewritten manifest can match changed files. Sealing the same run again with the same version of
Vectrial, which the manifest names, gives the same bytes.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from vectrial.model.errors import DataError, UserError
from vectrial.results.database import DATABASE
from vectrial.results.folder import CHOSEN, is_own
from vectrial.results.note import NOTE
from vectrial.results.reader import RunReader
from vectrial.util.archive import safe_unpack
from vectrial.util.redaction import environment_redaction
from vectrial.util.scratch import ScratchFolder
from vectrial.util.version import version

SUFFIX = ".vectrial.tar.gz"
FORMAT = 1
_MANIFEST, _RUN = "manifest.json", "run"
_SEAL = re.compile(r"[0-9a-fA-F]{64}")
#: Files with a run's measurements and their circumstances; the report is made from these.
_KEPT = (
    DATABASE, f"{DATABASE}.wal", "suite.toml", CHOSEN, "environment.json", NOTE, "logs/**/*",
)  # fmt: skip
#: Files required to read or repeat a run.
_NEEDED = (DATABASE, "suite.toml")


class SealedFile(BaseModel):
    """A file of a bundle: its path in the run's folder, its size and its checksum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    size_bytes: int
    sha256: str


class Manifest(BaseModel):
    """The manifest of a bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    vectrial_version: str
    run_id: str
    suite_name: str
    started_at: str
    finished_at: str | None
    files: tuple[SealedFile, ...]


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk. seal: SHA-256 of its manifest, in hex."""

    path: Path
    manifest: Manifest
    seal: str

    @property
    def size_bytes(self) -> int:
        """Size of the packed bundle in bytes."""
        return self.path.stat().st_size


def seal(run: Path, out: Path | None = None) -> Bundle:
    """Write the bundle of a run. A link that leads out of its folder is not part of it.

    Args:
        run: its folder; a link such as `runs/latest` is followed.
        out: the file to write, *.gz, or a folder for it, which is created if it is missing; next
            to the run's folder by default.

    Raises:
        UserError: there is no run, it is being written, it lacks a file that a bundle must have,
            or a file of that name exists.
    """
    with RunReader(run) as reader:  # raises if there is no run, or it is under way
        record, folder = reader.run(), reader.folder
        _hide_secrets(reader)
    target = _target(folder, out)
    manifest = Manifest(
        format=FORMAT,
        vectrial_version=version(),
        run_id=str(record["run_id"]),
        suite_name=str(record["suite_name"]),
        started_at=record["started_at"].isoformat(),
        finished_at=record["finished_at"].isoformat() if record["finished_at"] else None,
        files=tuple(_sealed_file(folder, path) for path in _files(folder)),
    )
    written = _bytes_of(manifest)
    with ScratchFolder(".sealing-", target.parent) as scratch:
        packed = scratch / "bundle"
        _pack(packed, written, folder, manifest)
        try:
            _publish(packed, target)
        except FileExistsError as error:
            raise UserError(
                "there is a file of that name", where=str(target), remedy="give another by --out"
            ) from error
    return Bundle(target, manifest, hashlib.sha256(written).hexdigest())


@contextmanager
def open_bundle(path: Path, expected: str | None = None) -> Iterator[tuple[Bundle, Path]]:
    """A checked bundle and its run's folder, which is removed when the block ends.

    expected: the seal that it must have, 64 hexadecimal digits; any seal by default.

    Raises:
        DataError: it is not a bundle, or it has changed since it was sealed (the message names the
            first file that differs), or its seal is not the expected one, or its manifest
            contradicts the run's database.
        UserError: `expected` is not a seal.
    """
    with ScratchFolder(".bundle-", Path(tempfile.gettempdir())) as scratch:
        root = scratch / "content"
        yield _check_and_unpack(path, root, expected), root / _RUN


@contextmanager
def run_folder(run: Path) -> Iterator[Path]:
    """The folder of a run given as a folder or as a bundle; a bundle is checked."""
    if not run.is_file():
        yield run
        return
    with open_bundle(run) as (_, folder):
        yield folder


def unpack(path: Path, into: Path, expected: str | None = None) -> Bundle:
    """Check a bundle and unpack its run into the folder `into`, which must not exist.

    expected: see `open_bundle`.

    Raises:
        DataError: see `open_bundle`.
        UserError: see `open_bundle`; or the folder exists.
    """
    if into.exists():
        raise UserError("the folder exists already", where=str(into), remedy="give another")
    into = into.absolute()
    into.parent.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(".unsealing-", into.parent) as scratch:
        root = scratch / "content"
        bundle = _check_and_unpack(path, root, expected)
        (root / _RUN).rename(into)
    return bundle


def _hide_secrets(reader: RunReader) -> None:
    """Remove the environment's secrets from the run's logs: a run of an earlier version that was
    killed did not do so itself.

    Raises:
        UserError: a secret is in a place from which it cannot be removed.
    """
    redaction = environment_redaction()
    if not redaction:
        return
    texts = [(DATABASE, repr(row)) for query in _WORDS for row in reader.rows(query)]
    for name in ("suite.toml", CHOSEN, "environment.json", NOTE):
        if is_own(reader.folder, reader.folder / name):
            kept = (reader.folder / name).read_text(encoding="utf-8", errors="replace")
            texts.append((name, kept))
    for name, text in texts:
        if redaction.contains_secret(text):
            raise UserError(
                f"its {name} holds a secret that the environment gives",
                where=str(reader.folder),
                remedy="change the secret at its server, and measure anew",
            )
    for path in sorted((reader.folder / "logs").rglob("*")):
        if is_own(reader.folder, path):
            redaction.file(path)


#: Queries for the parts of a run that hold text from elsewhere.
_WORDS = (
    "select command, environment from run",
    "select * from trial",
    "select reason from phase where reason is not null",
    "select messages from error",
    "select detail from gate",
)


def _target(folder: Path, out: Path | None) -> Path:
    name = folder.name + SUFFIX
    if out is None:
        return folder.parent / name
    target = out if out.suffix == ".gz" and not out.is_dir() else out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.resolve()


def _publish(packed: Path, target: Path) -> None:
    """Move the complete bundle to its place.

    Raises:
        FileExistsError: the target exists.
    """
    try:
        os.link(packed, target)  # unlike a rename, never replaces what is there
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, as memory cards have
        with target.open("xb") as file:
            try:
                with packed.open("rb") as content:
                    shutil.copyfileobj(content, file)
            except BaseException:
                target.unlink()
                raise


def _files(folder: Path) -> list[Path]:
    found = [path for one in _KEPT for path in sorted(folder.glob(one)) if is_own(folder, path)]
    for name in _NEEDED:
        if folder / name not in found:
            raise UserError(
                f"the run holds no {name} of its own",
                where=str(folder),
                remedy="put it there: without it a bundle could not be repeated",
            )
    return found


def _sealed_file(folder: Path, path: Path) -> SealedFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    inside = path.relative_to(folder).as_posix()
    return SealedFile(path=inside, size_bytes=path.stat().st_size, sha256=digest)


def _bytes_of(manifest: Manifest) -> bytes:
    return (json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n").encode()


def _pack(packed: Path, manifest: bytes, folder: Path, contents: Manifest) -> None:
    """Write the archive, without times, owners or its own name: one run always gives one content.

    Raises:
        UserError: a file is no longer what the manifest says, since the run is measured again.
    """
    with (
        packed.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.addfile(_member(_MANIFEST, len(manifest)), io.BytesIO(manifest))
        for one in contents.files:
            try:
                with (folder / one.path).open("rb") as content:
                    tar.addfile(_member(f"{_RUN}/{one.path}", one.size_bytes), content)
                same = _sealed_file(folder, folder / one.path) == one
            except OSError as error:
                if error.errno not in (None, errno.ENOENT):  # none: it has become shorter
                    raise
                same = False
            if not same:
                raise UserError(
                    f"the run changed while it was sealed: {one.path}",
                    where=str(folder),
                    remedy="wait until nothing writes to it, and seal it again",
                )


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o644
    return member


def _check_and_unpack(path: Path, root: Path, expected: str | None) -> Bundle:
    if expected is not None and not _SEAL.fullmatch(expected):
        raise UserError(
            f"'{expected}' is no seal",
            where="--seal",
            remedy="give all 64 hexadecimal digits that `vectrial bundle` printed when it sealed",
        )
    if path.is_dir():
        raise UserError(
            "this is a folder, and no bundle",
            where=str(path),
            remedy="`vectrial bundle FOLDER` makes one of a run, `vectrial run --resume FOLDER`"
            " goes on with it",
        )
    if not path.is_file():
        raise UserError("there is no such bundle", where=str(path))
    files = safe_unpack(path, root)
    told = root / _MANIFEST
    if not told.is_file():
        raise DataError(
            f"it holds no {_MANIFEST}",
            where=str(path),
            remedy=f"give a file that `vectrial bundle` wrote, *{SUFFIX}",
        )
    written = told.read_bytes()
    own = hashlib.sha256(written).hexdigest()
    if expected is not None and own != expected.lower():
        raise DataError(
            f"its seal is {own}, and not {expected.lower()}, which is expected",
            where=str(path),
            remedy="it is another bundle, or it was changed; have it, or its seal, sent again",
        )
    manifest = _manifest(written, path)
    _compare(path, root / _RUN, manifest, {file.relative_to(root).as_posix() for file in files})
    _check_manifest(path, root / _RUN, manifest)
    return Bundle(path, manifest, own)


def _manifest(written: bytes, path: Path) -> Manifest:
    try:
        plain: Any = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise DataError(f"its {_MANIFEST} is no JSON: {error}", where=str(path)) from error
    newer = isinstance(plain, dict) and plain.get("format")
    if isinstance(newer, int) and newer > FORMAT:
        raise DataError(
            f"the bundle has format {newer}, this Vectrial reads {FORMAT}",
            where=str(path),
            remedy="update vectrial",
        )
    try:
        return Manifest.model_validate(plain)
    except ValidationError as error:
        fault = error.errors()[0]
        raise DataError(
            f"its {_MANIFEST} is not as it should be: {'.'.join(map(str, fault['loc']))}:"
            f" {fault['msg']}",
            where=str(path),
        ) from error


def _compare(path: Path, run: Path, manifest: Manifest, files: set[str]) -> None:
    """Refuse a bundle whose files differ from its manifest."""
    named = {f"{_RUN}/{one.path}" for one in manifest.files}
    for what, extra in (("not sealed", files - named - {_MANIFEST}), ("missing", named - files)):
        if extra:
            raise _bundle_error(path, f"{min(extra)} is {what}")
    for one in manifest.files:
        there = run.joinpath(*PurePosixPath(one.path).parts)
        if _sealed_file(run, there) != one:
            raise _bundle_error(path, f"{one.path} is not what was sealed")


def _check_manifest(path: Path, run: Path, manifest: Manifest) -> None:
    """Refuse a manifest that contradicts the database: one of them was changed."""
    try:
        with RunReader(run) as reader:
            record = reader.run()
            reader.suite()
    except UserError as error:  # it names a folder that is gone by then
        inside = Path(error.where).name
        inside = inside if inside == "suite.toml" else DATABASE
        raise DataError(error.what, where=f"{path}: {inside}", remedy=error.remedy) from error
    for name in ("run_id", "suite_name", "started_at", "finished_at"):
        told, held = getattr(manifest, name), record.get(name)
        if told == held or (isinstance(held, datetime) and _instant(told) == held):
            continue
        raise DataError(
            f"its {_MANIFEST} contradicts its {DATABASE}: {name} is {told} in the one, {held} in"
            " the other",
            where=str(path),
            remedy="it was not made by `vectrial bundle`; have it sent again",
        )


def _instant(text: str | None) -> datetime | None:
    """A time from a manifest; None if it cannot be compared."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _bundle_error(path: Path, what: str) -> DataError:
    return DataError(
        f"the seal is broken: {what}",
        where=str(path),
        remedy="it was changed or damaged on its way; have it sent again",
    )
