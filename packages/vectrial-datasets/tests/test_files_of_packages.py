"""The files that packages hold, and those that are none."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectrial.model.errors import DataError
from vectrial_datasets.sources import dictionaries
from vectrial_datasets.sources.images import read_idx
from vectrial_datasets.sources.torch_file import read_tensors


def _idx(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def test_idx_plain_and_gzipped(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(_idx(array))
    (tmp_path / "a.gz").write_bytes(gzip.compress(_idx(array)))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x0d\x01\0\0\0\1\0",
        b"\0\0\x08\x01\0\0\0\2\0",
        b"\0\0\x08\x01\0\0\0\1\0\0",
        b"\0\0\x08\x03" + b"\xff" * 12,
        b"<html>",
    ],
)
def test_idx_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError):
        read_idx(tmp_path / "a")


class _Stored:
    """Pickles as a torch tensor of the older format does."""

    def __init__(self, key: str, offset: int, shape: Any, strides: Any) -> None:
        self.parts = (key, offset, shape, strides)


def _checkpoint(tensors: dict[str, _Stored], storages: dict[str, Any], count: int = 0) -> bytes:
    """A checkpoint written with opcodes, since torch is not here to write one."""
    out = io.BytesIO()
    for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(head, out, protocol=2)
    out.write(b"\x80\x02}(")
    for name, tensor in tensors.items():
        key, offset, shape, strides = tensor.parts
        out.write(pickle.dumps(name, 2)[2:-1])
        out.write(b"ctorch._utils\n_rebuild_tensor_v2\n((")
        out.write(pickle.dumps("storage", 2)[2:-1] + b"ctorch\nFloatStorage\n")
        out.write(pickle.dumps(key, 2)[2:-1] + pickle.dumps("cpu", 2)[2:-1])
        out.write(b"K\x00NtQ")
        for part in (offset, shape, strides):
            out.write(pickle.dumps(part, 2)[2:-1])
        out.write(b"\x89NtR")
    out.write(b"u.")
    pickle.dump(list(storages), out, protocol=2)
    for data in storages.values():
        out.write((count or len(data)).to_bytes(8, "little") + data.tobytes())
    return out.getvalue()


def test_torch_file(tmp_path: Path) -> None:
    data = np.arange(6, dtype="<f4")
    path = tmp_path / "m.pth"
    path.write_bytes(_checkpoint({"w": _Stored("7", 0, (3, 2), (1, 3))}, {"7": data}))
    np.testing.assert_array_equal(read_tensors(path)["w"], data.reshape(2, 3).T)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps(1) * 3 + b"cos\nsystem\n(S'true'\ntR.",
        _checkpoint({"w": _Stored("7", 0, (9, 2), (1, 3))}, {"7": np.zeros(6, "<f4")}),
        _checkpoint({"w": _Stored("7", 0, (3, 2), (1, 3))}, {"7": np.zeros(6, "<f4")}, 1 << 50),
        _checkpoint({"w": _Stored("8", 0, (3, 2), (1, 3))}, {"7": np.zeros(6, "<f4")}),
    ],
)
def test_torch_file_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.pth").write_bytes(content)
    with pytest.raises(DataError):
        read_tensors(tmp_path / "m.pth")


def test_senses_of_an_entry_of_gcide() -> None:
    numbered = """Abuse \\A*buse"\\, v. t. [F. abuser; L. abusus.
   See {Use}.]
   1. To put to a wrong use; to
      misapply; to {misuse}.
      [1913 Webster]

            A quotation of someone.      --Froude.
      [1913 Webster]

   2. To use ill.
      [1913 Webster]

   Syn: To maltreat; injure.
"""
    assert list(dictionaries.senses(numbered)) == [
        "To put to a wrong use; to misapply; to misuse.",
        "To use ill.",
    ]
    alone = """Tarsal \\Tar"sal\\ (t[aum]r"sal), n. [NL. tarsale.] (Zool.)
   Same as {Tercel}. [Obs.]
   [1913 Webster]
"""
    assert list(dictionaries.senses(alone)) == ["(Zool.) Same as Tercel."]
    assert not list(dictionaries.senses("Ox \\Ox\\, n.\n   A beast."))
    assert dictionaries.base64_number("BA") == 64
    assert dictionaries.base64_number("Fz") == 5 * 64 + 51


def test_a_line_of_edict() -> None:
    several = (
        "がくがく /(adv,vs) (1) (on-mim) trembling (with fear)/shaking/(adv,vs) (2) loose/(P)/"
    )
    assert dictionaries.parse_line(several) == ("がくがく", "trembling (with fear); shaking; loose")
    assert dictionaries.parse_line("回音 [かいおん] /(n) turn (melodic ornament)/") == (
        "回音",
        "turn (melodic ornament)",
    )
    assert dictionaries.parse_line("空") == ("空", "")


def test_wordnet_line() -> None:
    line = (
        "02084071 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 023 @ 02083346 n 0000"
        " | a member of the genus Canis  \n"
    )
    assert dictionaries.parse_synset(line, "noun") == {
        "word": "dog",
        "pos": "noun",
        "lex_file": "noun.animal",
        "n_words": 3,
        "n_pointers": 23,
        "gloss": "a member of the genus Canis",
    }
    assert len(dictionaries.LEX_FILES) == 45


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_torch_file_never_breaks(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.pth"
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_tensors(path)
