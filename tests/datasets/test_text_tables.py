"""CSV and TSV: vectors as text or as columns, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vectrial.datasets.readers import ReaderOptions, VectorSource, open_source
from vectrial.model.errors import UserError

X = [[0.5, 1.0, -2.0], [3.0, 0.25, 1e-3]]
LISTS = '{0},"[0.5, 1, -2]"\n{1},"[3,0.25,1e-3]"\n'
NUMBERS = "{0},0.5,1,-2\n{1},3,0.25,1e-3\n"


def read(source: VectorSource, step: int = 5) -> tuple[Any, pa.Table | None]:
    with source:
        blocks = list(source.blocks(step))
    tables = [block.metadata for block in blocks if block.metadata is not None]
    metadata = pa.concat_tables(tables) if tables else None
    return np.concatenate([block.vectors for block in blocks]), metadata


#: What a file is called and holds: each has the rows X.
FILES: dict[str, tuple[str, str]] = {
    "lists as JSON": ("a.csv", "n,emb\n" + LISTS.format(7, 8)),
    "lists in braces": ("a.csv", 'n,emb\n7,"{0.5,1,-2}"\n8,"{3,0.25,0.001}"\n'),
    "lists of words": ("a.csv", "n,emb\n7,0.5 1 -2\n8,3  0.25 1e-3\n"),
    "lists as numpy writes them": ("a.csv", 'n,emb\n7,"[ 0.5  1.\n -2. ]"\n8,"[3. 0.25 1.e-03]"\n'),
    "lists without quotes": ("a.csv", "n;emb\n7;[0.5, 1, -2]\n8;[3, 0.25, 0.001]\n"),
    "a column for each component": ("a.csv", "n,v0,v1,v2\n" + NUMBERS.format(7, 8)),
    "numbered from 1, in another order": ("a.csv", "e_3,e_1,e_2,n\n-2,0.5,1,7\n1e-3,3,0.25,8\n"),
    "as pandas writes a matrix": ("a.csv", ",0,1,2\n" + NUMBERS.format(0, 1)),
    "numbers alone": ("a.csv", "0.5,1,-2\n3,0.25,1e-3\n"),
    "lists alone": ("a.csv", "0.5 1 -2\n3 0.25 1e-3\n"),
    "texts alone": ("a.csv", "n,emb\nx,0.5 1 -2\ny,3 0.25 1e-3\n"),
    "semicolons": ("a.csv", ("n;v0;v1;v2\n" + NUMBERS.format(7, 8)).replace(",", ";")),
    "ends of lines of Windows, and a mark": (
        "a.csv",
        "\ufeff" + ("n,emb\n" + LISTS.format(7, 8)).replace("\n", "\r\n"),
    ),
    "tabs": ("a.tsv", "n\temb\n7\t[0.5, 1, -2]\n8\t[3,0.25,1e-3]\n"),
    "tabs between components": (
        "a.tsv",
        ("n,v0,v1,v2\n" + NUMBERS.format(7, 8)).replace(",", "\t"),
    ),
    "one column": ("a.csv", 'emb\n"[0.5, 1, -2]"\n"[3,0.25,1e-3]"\n'),
    "no end of the last line": ("a.csv", ("n,emb\n" + LISTS.format(7, 8)).strip()),
    "a name that is a pattern, and an ending in capitals": (
        "a[1]*?'.CSV",
        "n,emb\n" + LISTS.format(7, 8),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_the_rows_are_those_of_the_file(name: str, packed: bool, tmp_path: Path) -> None:
    file, content = FILES[name]
    path = tmp_path / file
    if packed:
        path = tmp_path / f"{file}.gz"
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_bytes(content.encode())
    source = open_source(path)
    assert (source.rows, source.dim) == (2, 3)
    vectors, metadata = read(source)
    np.testing.assert_array_equal(vectors, np.array(X, np.float32))
    if "n" in source.columns:
        assert metadata is not None
        assert metadata.column("n").to_pylist() in ([7, 8], ["x", "y"])


def test_types_are_those_of_all_rows(tmp_path: Path) -> None:
    count = 30_000
    lines = [f"{n},{n / 2},true,w{n},2024-01-0{n % 9 + 1},{n} 1" for n in range(count)]
    lines.append(f"{count},,,,,5 1")
    lines.append(f"{count + 1},x,0,00,2024-02-01,6 1")
    file = tmp_path / "a.csv"
    file.write_text("id,late,flag,word,day,emb\n" + "\n".join(lines))
    vectors, metadata = read(open_source(file), 1_000)
    assert len(vectors) == count + 2
    assert metadata is not None
    assert [str(field.type) for field in metadata.schema] == ["string", "string", "string", "int64"]
    assert metadata.column("late").to_pylist()[-3:] == [str((count - 1) / 2), None, "x"]
    assert metadata.column("day").to_pylist()[0] == 19_723
    first = open_source(file, ReaderOptions(rows=20))
    assert first.rows == 20
    vectors, metadata = read(first)
    assert metadata is not None
    assert str(metadata.schema.field("late").type) == "double", "of what is read"
    np.testing.assert_array_equal(vectors[:, 0], range(20))


def test_ids_and_columns_are_chosen_as_of_other_formats(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,key,q1,q2,v0,v1\n-3,a,1,2,0.5,1\n4,b,3,4,1.5,2\n")
    with pytest.raises(UserError, match=r"choose with `--vectors`: 'q1\.\.q2', 'v0\.\.v1'"):
        open_source(file)
    source = open_source(file, ReaderOptions(vectors="v0..v1"))
    assert source.columns == ("id", "key", "q1", "q2")
    assert (source.has_ids, source.labels) == (False, "id"), "one is negative"
    vectors, _ = read(source)
    assert vectors.tolist() == [[0.5, 1], [1.5, 2]]
    source = open_source(file, ReaderOptions("q1..q2", ids="key", keep=("v1",)))
    assert (source.columns, source.labels) == (("v1", "key"), "key")
    with source:
        (block,) = source.blocks()
    assert block.vectors.tolist() == [[1, 2], [3, 4]]
    file.write_text('id,emb\n9,"[1, 2]"\n5,"[3, 4]"\n')
    with open_source(file) as source:
        (block,) = source.blocks()
    assert block.ids is not None
    assert block.ids.tolist() == [9, 5]


FORMS = {
    "JSON": lambda row: '"' + json.dumps(row) + '"',
    "braces": lambda row: '"{' + ",".join(map(repr, row)) + '}"',
    "words": lambda row: " ".join(map(repr, row)),
    "columns": lambda row: ",".join(map(repr, row)),
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)
@given(data=st.data(), rows=st.integers(1, 12), dim=st.integers(2, 7), step=st.integers(1, 15))
def test_a_round_trip(
    form: str,
    data: st.DataObject,
    rows: int,
    dim: int,
    step: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    numbers = st.floats(-(2.0**61), 2.0**61, width=32)
    x = data.draw(hnp.arrays(np.float32, (rows, dim), elements=numbers))
    words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=9)
    texts = ["text", *data.draw(st.lists(words, min_size=rows - 1, max_size=rows - 1))]
    header = ",".join(f"v{n}" for n in range(dim)) if form == "columns" else "emb"
    quoted = ('"' + one.replace('"', '""') + '"' for one in texts)
    cells = (FORMS[form](row.tolist()) for row in x)
    body = (f"{text},{cell}" for text, cell in zip(quoted, cells, strict=True))
    file = tmp_path_factory.mktemp("round") / "a.csv"
    file.write_text("\n".join((f"note,{header}", *body)) + "\n", encoding="utf-8")
    source = open_source(file, ReaderOptions(keep=()))
    assert (source.rows, source.dim) == x.shape
    np.testing.assert_array_equal(read(source, step)[0], x)


#: What a file is called and holds, and what is said of it.
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a.csv", b"", "the file is empty"),
    "a header": ("a.csv", b"id,emb\n", "it holds no vectors"),
    "blank lines": ("a.csv", b"\n\n\n", "no vectors|no column of vectors"),
    "no UTF-8": ("a.csv", b'n,emb\ncaf\xe9,"[1, 2]"\n', "line 2: the line is not UTF-8 .*iconv"),
    "no UTF-8, far down": (
        "a.csv",
        b"n,emb\n" + b'a,"[1, 2]"\n' * 9_000 + b'caf\xe9,"[1, 2]"\n',
        "line 9002: the line is not UTF-8",
    ),
    "UTF-16": ("a.csv", 'n,emb\n1,"[1, 2]"\n'.encode("utf-16"), "line 1: the line is not UTF-8"),
    "a short line": (
        "a.csv",
        b"n,v0,v1\n1,2,3\n1,2\n1,2,3\n",
        "line 3: the line has 2 cells where the first has 3 .*cut short",
    ),
    "a long line": ("a.csv", b"n,v0,v1\n1,2,3\n1,2,3,4\n", "line 3: the line has 4 cells"),
    "a long line, far down": (
        "a.csv",
        b"n,v0,v1\n" + b"1,2,3\n" * 30_000 + b"1,2,3,4\n",
        "line 30002: the line has 4 cells where the first has 3",
    ),
    "a list without quotes": (
        "a.csv",
        b"n,emb\n1,[1, 2]\n",
        "line 2: the line has 3 cells .*quotes",
    ),
    "a gap": (
        "a.csv",
        b"n,v0,v1,v3\n1,2,3,4\n",
        r"v0\.\.v3 have a gap: .* has the number 2 .*--vectors",
    ),
    "a component that is text": ("a.csv", b"v0,v1,v2\n1,2,3\n1,x,3\n", "a gap: .* number 1"),
    "no vectors": ("a.csv", b"n,price\n1,2.5\n", "there is no column of vectors"),
    "no number": (
        "a.csv",
        b'n,emb\n1,"[1, 2]"\n2,"[1, x]"\n',
        r"row 1: 'emb' is not a list of numbers: '\[1, x\]' .*written as",
    ),
    "no vector": ("a.csv", b'n,emb\n1,"[1, 2]"\n2,\n', "row 1: the vector is missing"),
    "a first vector that is missing": ("a.csv", b'n,emb\n1,\n2,"[1, 2]"\n', "row 0: the vector is"),
    "a component that is missing": ("a.csv", b"v0,v1\n1,2\n3,\n", r"row 1: component 1 is missing"),
    "a short vector": (
        "a.csv",
        b'n,emb\n1,"[1, 2]"\n2,"[1]"\n',
        "row 1: the vector has 1 components",
    ),
    "no finite number": ("a.csv", b"v0,v1\n1,2\n3,inf\n", "row 1: component 1 is inf"),
    "an id that is missing": (
        "a.csv",
        b'id,emb\n1,"[1, 2]"\n,"[1, 2]"\n',
        "row 1: id 'id' is missing",
    ),
    "bytes": (
        "a.csv",
        bytes(range(256)) * 20,
        "line 2: the line is not UTF-8",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_read_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file, content, said = REFUSED[name]
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(UserError, match=said) as refused, open_source(path) as source:
        list(source.blocks())
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,price\n1,2.5\n")
    with pytest.raises(UserError, match=r"there is no column 'embb'.*it has 'n', 'price'"):
        open_source(tmp_path / "a.csv", ReaderOptions(vectors="embb"))
    (tmp_path / "a.csv").write_text('n,emb\n1,"[1, 2]"\n')
    with pytest.raises(UserError, match=r"'embb' is no column of vectors.*did you mean 'emb'"):
        open_source(tmp_path / "a.csv", ReaderOptions(vectors="embb"))


def test_beside_vectors_a_table_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label\n0,a\n")
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"v0,v1\n1,2\n"))
    np.save(tmp_path / "a.npy", np.array(X, np.float32))
    with open_source(tmp_path) as source:
        assert source.rows == 2
        assert any("passed over: a.csv.bz2 and 1 more" in note for note in source.notes)
    (tmp_path / "a.npy").unlink()
    (tmp_path / "a.csv.bz2").unlink()
    (tmp_path / "labels.csv").write_text("id,v0,v1\n0,1,2\n")
    with open_source(tmp_path) as source:
        assert [block.vectors.tolist() for block in source.blocks()] == [[[1, 2]]]
