"""Unpacking of downloaded archives that are trusted with nothing.

Only regular files and folders come out, below the target folder, and no more bytes than an
honest archive of that size could hold. Links, devices, absolute or climbing paths, names that
occur twice and encrypted members end the unpacking, and nothing of it remains.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from vectrial.model.errors import DataError

_CHUNK = 1 << 20
#: tarfile reads a member's extended header at once; honest ones hold a path or two.
_MAX_READ = 4 << 20

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")

#: What the standard library raises on damaged archives.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,  # includes UnicodeDecodeError
    OverflowError,
    NotImplementedError,  # a zip method that the library does not know
    RuntimeError,  # a zip member that is encrypted
    MemoryError,
    OSError,
)


@dataclass(frozen=True)
class Limits:
    """Past these an archive is taken for a bomb.

    total_bytes: of everything that comes out.
    ratio: unpacked over packed bytes, once `small_bytes` have come out. JSON reaches 20 to 50;
        deflate at most 1032.
    members: files and folders.
    """

    total_bytes: int = 1 << 40
    ratio: float = 200.0
    small_bytes: int = 16 << 20
    members: int = 1_000_000


def is_archive(path: Path) -> bool:
    """Whether `safe_unpack` would know how to begin: by content, not by name."""
    with path.open("rb") as file:
        start = file.read(265)
    if start.startswith((b"PK\3\4", b"PK\5\6")) or start[257:262] == b"ustar":
        return True
    return start.startswith(_COMPRESSED)


def safe_unpack(archive: Path, into: Path, *, limits: Limits | None = None) -> tuple[Path, ...]:
    """Unpack a tar (plain, gz, bz2, xz) or zip archive into the folder `into`.

    Args:
        archive: the file; its kind is told from its content.
        into: a folder that does not exist yet, or is empty; it appears when all went well.
        limits: what counts as a bomb.

    Returns:
        The files that came out, in the archive's order.

    Raises:
        DataError: the archive is damaged, of another kind, or holds what no data set needs.
    """
    budget = _Budget(archive, limits or Limits())
    into.parent.mkdir(parents=True, exist_ok=True)
    if into.exists() and any(into.iterdir()):
        raise DataError("the folder to unpack into is not empty", where=str(into))
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=into.parent) as temporary:
        root = Path(temporary) / "content"
        root.mkdir()
        try:
            with archive.open("rb") as file:
                is_zip = file.read(4) in (b"PK\3\4", b"PK\5\6")
            unpack = _unpack_zip if is_zip else _unpack_tar
            files = unpack(archive, root, budget)
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(
                f"the archive cannot be unpacked: {error or type(error).__name__}",
                where=str(archive),
                remedy="it is damaged, cut short, or no tar or zip archive; fetch it again",
            ) from error
        root.replace(into)
    return tuple(into / file.relative_to(root) for file in files)


class _Budget:
    """Counts what comes out of one archive, and refuses more than its limits."""

    def __init__(self, archive: Path, limits: Limits) -> None:
        self.archive, self._limits = archive, limits
        allowed = max(limits.small_bytes, int(archive.stat().st_size * limits.ratio))
        self._bytes_left = min(limits.total_bytes, allowed)
        self._members_left = limits.members

    def spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise self.refusal(
                "", f"unpacks to far more than its {self.archive.stat().st_size} bytes promise"
            )

    def check_members(self, count: int) -> None:
        """Raise where an archive says that it has more members than it may."""
        if count > self._limits.members:
            raise self.refusal("", f"holds {count:,} members, more than {self._limits.members:,}")

    def member(self) -> None:
        self._members_left -= 1
        if self._members_left < 0:
            raise self.refusal("", f"holds more than {self._limits.members:,} members")

    def refusal(self, member: str, why: str) -> DataError:
        return DataError(
            f"member {member!r} {why}" if member else f"the archive {why}",
            where=str(self.archive),
            remedy="it was not unpacked; archives of data hold plain files only",
        )


class _Bounded:
    """Forward reading of a decompressed stream, within a budget.

    Reads and seeks of any size go through in pieces, so that neither a claimed size nor a
    member that is skipped decompresses more than was allowed.
    """

    def __init__(self, stream: IO[bytes], budget: _Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise self._budget.refusal("", f"has a header that claims {size} bytes")
        data = self._stream.read(size)
        self._budget.spend(len(data))
        return data

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int) -> int:
        at = self._stream.tell()
        if offset < at:
            raise self._budget.refusal("", "points backwards")
        while at < offset:
            data = self.read(min(_CHUNK, offset - at))
            if not data:
                break
            at += len(data)
        return at


def _unpack_tar(archive: Path, root: Path, budget: _Budget) -> list[Path]:
    files: list[Path] = []
    with (
        _decompressed(archive) as stream,
        # tarfile only ever calls read, seek and tell of what it reads from.
        tarfile.open(fileobj=cast(Any, _Bounded(stream, budget)), mode="r:") as opened,
    ):
        tar: Any = opened
        while (member := tar.next()) is not None:
            tar.members = []  # tarfile would keep every header
            budget.member()
            target = _target(root, member.name, budget)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isreg() and not member.issparse():
                content = tar.extractfile(member)
                if content is None:
                    raise budget.refusal(member.name, "has no content")
                _copy(content, target, member.name, member.size, budget)
                files.append(target)
            else:
                raise budget.refusal(member.name, f"is {_kind(member)}, not a file or folder")
    return files


@contextmanager
def _decompressed(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=file) as stream:
                yield cast(IO[bytes], stream)
        elif start.startswith(b"BZh"):
            with bz2.BZ2File(file) as stream:
                yield stream
        elif start.startswith(b"\xfd7zXZ\0"):
            with lzma.LZMAFile(file) as stream:
                yield stream
        else:
            yield file


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}"
    if member.isdev():
        return "a device or pipe"
    return "a sparse file" if member.issparse() else f"of type {member.type!r}"


def _unpack_zip(archive: Path, root: Path, budget: _Budget) -> list[Path]:
    files: list[Path] = []
    with zipfile.ZipFile(archive) as bundle:
        members = bundle.infolist()
        budget.check_members(len(members))
        for member in members:
            budget.member()
            target = _target(root, member.orig_filename, budget)
            kind = (member.external_attr >> 16) & 0o170000
            if kind not in (0, 0o100000, 0o040000):
                raise budget.refusal(member.filename, "is a link or device, not a file or folder")
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            with bundle.open(member) as content:
                _copy(content, target, member.filename, member.file_size, budget, counted=False)
            files.append(target)
    return files


def _target(root: Path, name: str, budget: _Budget) -> Path:
    parts = PurePosixPath(name).parts
    unsafe = (
        name.startswith("/")
        or "\\" in name
        or "\0" in name
        or ".." in parts
        or (parts and parts[0].endswith(":"))
    )
    if unsafe or (not parts and name.strip("./")):
        raise budget.refusal(name, "would lie outside the folder")
    return root.joinpath(*parts)


def _copy(
    content: IO[bytes],
    target: Path,
    name: str,
    size: int,
    budget: _Budget,
    *,
    counted: bool = True,
) -> None:
    """Write one member; `counted` when its stream spends the budget itself."""
    if size > shutil.disk_usage(target.anchor).total:
        raise budget.refusal(name, f"claims {size} bytes, more than the disk holds")
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        out = target.open("xb")
    except FileExistsError as error:
        raise budget.refusal(name, "occurs twice") from error
    with out:
        while chunk := content.read(_CHUNK):
            if not counted:
                budget.spend(len(chunk))
            written += len(chunk)
            out.write(chunk)
    if written != size:
        raise budget.refusal(name, f"holds {written} of the {size} bytes it claims")
