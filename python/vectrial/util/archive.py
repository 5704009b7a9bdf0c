"""Unpacking of downloaded archives that are not trusted.

Only regular files and folders come out, below the target folder, and no more bytes than an honest
archive of that size could hold. Links, devices, absolute or climbing paths, names that occur twice
and encrypted members end the unpacking, and nothing remains.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from vectrial.model.errors import DataError
from vectrial.util.scratch import ScratchFolder

_CHUNK = 1 << 20
#: tarfile reads a member's extended header at once; honest ones hold a path or two.
_MAX_READ = 4 << 20
_ZIP = (b"PK\3\4", b"PK\5\6")
_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
#: Errors that the standard library raises on damaged archives.
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
class ArchiveLimits:
    """Limits beyond which an archive is taken for a bomb.

    total_bytes: size of all unpacked files together.
    ratio: unpacked over packed bytes, once `small_bytes` have come out. JSON reaches 20 to 50;
        deflate at most 1032.
    members: number of files and folders.
    """

    total_bytes: int = 1 << 40
    ratio: float = 200.0
    small_bytes: int = 16 << 20
    members: int = 1_000_000


def is_archive(path: Path) -> bool:
    """True if a file begins like an archive that `safe_unpack` knows, whatever its name."""
    with path.open("rb") as file:
        start = file.read(265)
    return start.startswith((*_ZIP, *_COMPRESSED)) or start[257:262] == b"ustar"


def safe_unpack(
    archive: Path, into: Path, *, limits: ArchiveLimits | None = None
) -> tuple[Path, ...]:
    """Unpack a tar (plain, gz, bz2, xz), zip archive or compressed file into the folder `into`.

    Args:
        archive: the file; its kind is determined from its content.
        into: a folder that does not exist yet, or is empty; it appears once all went well.
        limits: what counts as a bomb.

    Returns:
        The unpacked files, in the archive's order, executable as archived.

    Raises:
        DataError: the archive is damaged, of another kind, or holds what no data set needs.
    """
    budget = _Budget(archive, limits or ArchiveLimits())
    into.parent.mkdir(parents=True, exist_ok=True)
    if into.exists() and any(into.iterdir()):
        raise DataError("the folder to unpack into is not empty", where=str(into))
    with ScratchFolder(".unpacking-", into.parent) as scratch:
        root = scratch / "content"
        root.mkdir()
        files = []
        try:
            with archive.open("rb") as file:
                start = file.read(6)
            unpack = _zip_members if start.startswith(_ZIP) else _packed_members
            for member in unpack(archive, start, budget):
                budget.count_member()
                target = _target(root, member.name, budget)
                if member.is_folder:
                    target.mkdir(parents=True, exist_ok=True)
                elif member.wrong:
                    raise budget.refusal(member.name, member.wrong)
                else:
                    _write(member, target, budget)
                    files.append(into / target.relative_to(root))
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(
                f"the archive cannot be unpacked: {error or type(error).__name__}",
                where=str(archive),
                remedy="it is damaged, cut short, or no tar or zip archive; fetch it again",
            ) from error
        root.replace(into)
    return tuple(files)


class _Budget:
    """Count the bytes and members unpacked from one archive, and refuse more than its limits."""

    def __init__(self, archive: Path, limits: ArchiveLimits) -> None:
        self.archive, self._limits = archive, limits
        allowed = max(limits.small_bytes, int(archive.stat().st_size * limits.ratio))
        self._bytes_left = min(limits.total_bytes, allowed)
        self._members = 0

    def spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            size = self.archive.stat().st_size
            raise self.refusal("", f"unpacks to far more than its {size} bytes promise")

    def count_member(self, count: int = 1) -> None:
        self._members += count
        if self._members > self._limits.members:
            raise self.refusal("", f"holds more than {self._limits.members:,} members")

    def refusal(self, member: str, why: str) -> DataError:
        return DataError(
            f"member {member!r} {why}" if member else f"the archive {why}",
            where=str(self.archive),
            remedy="it was not unpacked; archives of data hold plain files only",
        )


@dataclass(frozen=True)
class _Member:
    """A member of an archive. size: None if it is not stated. wrong: why it is refused. counted:
    its bytes are counted when read, not when written."""

    name: str
    size: int | None
    mode: int
    is_folder: bool
    wrong: str
    read: Callable[[], IO[bytes] | None]
    counted: bool


class _BoundedReader:
    """Forward reading of a decompressed stream, within a budget.

    Reads and seeks of any size go through in pieces, so that neither a claimed size nor a
    member that is skipped decompresses more than was allowed.
    """

    def __init__(self, stream: IO[bytes], budget: _Budget) -> None:
        self._stream, self._budget = stream, budget
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise self._budget.refusal("", f"has a header that claims {size} bytes")
        data = self._stream.read(size)
        self._budget.spend(len(data))
        return data

    def seek(self, offset: int) -> int:
        at = self.tell()
        if offset < at:
            raise self._budget.refusal("", "points backwards")
        while at < offset and (data := self.read(min(_CHUNK, offset - at))):
            at += len(data)
        return at


def _packed_members(archive: Path, start: bytes, budget: _Budget) -> Iterator[_Member]:
    """Members of a tar archive, or the single member of a compressed file."""
    opener = next((one for magic, one in _COMPRESSED.items() if start.startswith(magic)), open)
    if opener is open or _is_tar(archive, opener):
        yield from _tar_members(archive, opener, budget)
        return
    content = lambda: opener(archive, "rb")  # noqa: E731
    yield _Member(archive.stem, None, 0, False, "", content, False)


def _is_tar(archive: Path, opener: Any) -> bool:
    with opener(archive, "rb") as stream:
        head = stream.read(tarfile.BLOCKSIZE)
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _tar_members(archive: Path, opener: Any, budget: _Budget) -> Iterator[_Member]:
    with (
        opener(archive, "rb") as stream,
        # tarfile only ever calls read, seek and tell of what it reads from.
        tarfile.open(fileobj=cast(Any, _BoundedReader(stream, budget)), mode="r:") as opened,
    ):
        tar: Any = opened
        while (one := tar.next()) is not None:
            tar.members = []  # tarfile would keep every header
            wrong = "" if one.isreg() and not one.issparse() else f"is {_kind(one)}, not a file"
            content = lambda one=one: tar.extractfile(one)  # noqa: E731
            yield _Member(one.name, one.size, one.mode, one.isdir(), wrong, content, True)


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}"
    if member.isdev():
        return "a device or pipe"
    return "a sparse file" if member.issparse() else f"of type {member.type!r}"


def _zip_members(archive: Path, start: bytes, budget: _Budget) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as bundle:
        for one in bundle.infolist():
            mode = one.external_attr >> 16
            known = mode & 0o170000 in (0, 0o100000, 0o040000)
            wrong = "" if known else "is a link or device, not a file or folder"
            content = lambda one=one: bundle.open(one)  # noqa: E731
            folder = one.is_dir() and known
            name = one.orig_filename
            yield _Member(name, one.file_size, mode, folder, wrong, content, False)


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


def _write(member: _Member, target: Path, budget: _Budget) -> None:
    if (member.size or 0) > shutil.disk_usage(target.anchor).total:
        raise budget.refusal(member.name, f"claims {member.size} bytes, more than the disk holds")
    content = member.read()
    if content is None:
        raise budget.refusal(member.name, "has no content")
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        out = target.open("xb")
    except FileExistsError as error:
        raise budget.refusal(member.name, "occurs twice") from error
    with out, content:
        while chunk := content.read(_CHUNK):
            if not member.counted:
                budget.spend(len(chunk))
            written += len(chunk)
            out.write(chunk)
    if member.size not in (None, written):
        raise budget.refusal(member.name, f"holds {written} of the {member.size} bytes it claims")
    if member.mode & 0o111:
        target.chmod(target.stat().st_mode | 0o111)
