import gzip
import io
import random
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from vectrial.model.errors import DataError
from vectrial.util.archive import ArchiveLimits, is_archive, safe_unpack

FILES = {"vectors.npy": b"\x93NUMPY" + bytes(5000), "deep/er/payloads.jsonl": b'{"a": 1}\n' * 300}


def add(tar: tarfile.TarFile, name: str, content: bytes = b"x", **attributes: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(content) if info.isreg() else None)


def good(path: Path, mode: str = "w:gz") -> Path:
    if mode == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("deep/", b"")
            for name, content in FILES.items():
                bundle.writestr(name, content)
        return path
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        add(tar, "./", b"", type=tarfile.DIRTYPE)
        for name, content in FILES.items():
            add(tar, name, content)
    return path


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz", "zip"])
def test_what_was_packed_comes_out(tmp_path: Path, mode: str) -> None:
    archive = good(tmp_path / "a.bin", mode)
    assert is_archive(archive)
    into = tmp_path / "out"
    found = safe_unpack(archive, into)
    assert {str(p.relative_to(into)): p.read_bytes() for p in found} == FILES
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin", "out"]


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(DataError, match="not empty"):
        safe_unpack(good(tmp_path / "a.tgz"), tmp_path / "out")


def refused(archive: Path, message: str, **kwargs: ArchiveLimits) -> None:
    into = archive.parent / "out"
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        safe_unpack(archive, into, **kwargs)
    assert str(archive) in str(caught.value)
    assert sorted(archive.parent.rglob("*")) == before


OUTSIDE = ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil", "C:/evil"]
NO_FILES = [
    ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "a link to '/etc/passwd'"),
    ({"type": tarfile.LNKTYPE, "linkname": "fine"}, "a link to 'fine'"),
    *(({"type": kind}, "a device or pipe") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE)),
    ({"type": tarfile.FIFOTYPE}, "a device or pipe"),
]
#: The names of an archive, what else is said of the last one, and why it is refused.
MEMBERS: list[tuple[str, tuple[str, ...], dict[str, object], str]] = [
    *(
        (kind, ("fine", one), {}, "outside the folder")
        for kind in ("tar", "zip")
        for one in OUTSIDE
    ),
    *(("tar", ("fine", "odd"), attributes, said) for attributes, said in NO_FILES),
    ("zip", ("link",), {"external_attr": (stat.S_IFLNK | 0o777) << 16}, "link or device"),
    ("tar", ("a", "a"), {}, "occurs twice"),
    ("tar", ("a", "./a"), {}, "occurs twice"),
    ("tar", ("a", "a/b"), {}, "cannot be unpacked"),
    ("tar", ("a/b", "a"), {}, "occurs twice|cannot be unpacked"),
]


@pytest.mark.parametrize(("kind", "names", "attributes", "message"), MEMBERS)
def test_members_that_no_dataset_needs(
    tmp_path: Path, kind: str, names: tuple[str, ...], attributes: dict[str, object], message: str
) -> None:
    archive, *before, last = tmp_path / "a", *names
    if kind == "tar":
        with tarfile.open(archive, "w:gz") as tar:
            for name in before:
                add(tar, name)
            add(tar, last, b"" if attributes else b"x", **attributes)
    else:
        with zipfile.ZipFile(archive, "w") as bundle:
            for name in before:
                bundle.writestr(name, b"x")
            info = zipfile.ZipInfo(last)
            for key, value in attributes.items():
                setattr(info, key, value)
            bundle.writestr(info, b"x")
    refused(archive, message)


def refused_within(archive: Path, message: str, mib: int) -> None:
    tracemalloc.start()
    refused(archive, message)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < mib << 20


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_bombs(tmp_path: Path, kind: str) -> None:
    archive, zeros = tmp_path / "a", bytes(100 << 20)
    if kind == "tar":
        with tarfile.open(archive, "w:gz") as tar:
            add(tar, "zeros", zeros)
    else:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("zeros", zeros)
    del zeros
    refused_within(archive, "unpacks to far more", mib=16)


def test_limits_can_be_set(tmp_path: Path) -> None:
    archive = good(tmp_path / "a.tgz")
    refused(archive, "more than 1 members", limits=ArchiveLimits(members=1))
    refused(archive, "unpacks to far more", limits=ArchiveLimits(total_bytes=100))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_claims_gigabytes(tmp_path: Path, kind: bytes) -> None:
    archive = tmp_path / "a.tgz"
    info = tarfile.TarInfo("huge")
    info.type, info.size = kind, 3 << 30
    with gzip.open(archive, "wb") as out:
        out.write(info.tobuf(tarfile.GNU_FORMAT))
        out.write(bytes(1 << 20))
    refused_within(archive, "claims 3221225472 bytes", mib=8)


def test_a_member_that_claims_more_than_the_disk(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    info = tarfile.TarInfo("huge")
    info.size = 1 << 60
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    refused(archive, "more than the disk holds")


def test_text_is_no_archive(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello " * 200)
    assert not is_archive(file)
    refused(file, "cannot be unpacked")


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz", "zip"])
def test_damage_is_a_data_error_or_harmless(tmp_path: Path, mode: str) -> None:
    whole = good(tmp_path / "whole", mode).read_bytes()
    rng = random.Random(7)
    refusals = 0
    for i in range(150):
        raw = bytearray(whole)
        if i % 3 == 0:
            raw = raw[: rng.randrange(len(raw))]
        else:
            for _ in range(rng.randrange(1, 4)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        case = tmp_path / f"case-{i}"
        case.mkdir()
        archive = case / "a"
        archive.write_bytes(raw)
        try:
            safe_unpack(archive, case / "out")
        except DataError:
            refusals += 1
            assert not (case / "out").exists()
    assert refusals > 20
