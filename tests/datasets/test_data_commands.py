"""The data commands as a person meets them: exit codes, stdout, stderr."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import reader_layouts as layouts

from vectrial.cli.main import main
from vectrial.datasets import library

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 6)).astype(np.float32)
Q = RNG.standard_normal((9, 6)).astype(np.float32)


@dataclass
class Done:
    code: int
    out: str
    err: str


Call = Callable[..., Done]


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["vectrial", "data", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        seen = capsys.readouterr()
        return Done(code, seen.out, seen.err)

    return run


def test_import_says_what_it_found(call: Call, tmp_path: Path) -> None:
    x = X.copy()
    x[8] = x[3]
    layouts.parquet(tmp_path / "my.parquet", x, "embedding", id=range(300), lang=["en", "de"] * 150)
    done = call("import", "my.parquet", "--vectors", "embedding", "--id", "id")
    assert (done.code, done.out) == (2, "")
    assert "give `--metric cosine`" in done.err
    arguments = ("--vectors", "embedding", "--id", "id", "--metric", "cosine", "--queries", "40")
    done = call("import", "my.parquet", *arguments)
    assert done.code == 0, done.err
    for part in ("260 × 6, cosine", "duplicates", "norms", "intrinsic dimension", "query shift"):
        assert part in done.out
    assert "lang" in done.out
    assert 'name = "my"' in done.err
    assert library.names() == ("my",)


def test_results_can_be_piped(call: Call, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    done = call("import", "a.npy", "--metric", "l2", "--format", "jsonl", "--name", "piped")
    found = json.loads(done.out)
    assert (found["name"], found["rows"], found["queries"]) == ("piped", 270, 30)
    assert found["facts"]["norms"]["min"] > 0
    again = call("inspect", "piped", "--format", "jsonl")
    assert json.loads(again.out) == found


def test_inspect_a_file_without_importing_it(call: Call, tmp_path: Path) -> None:
    layouts.hdf5(tmp_path / "a-angular.hdf5", X, Q)
    done = call("inspect", "a-angular.hdf5", "--rows", "200", "--format", "jsonl")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["rows"], found["metric"], found["queries"]) == (200, "cosine", 9)
    assert "facts are of the first 200 rows" in found["provenance"]["notes"]
    assert library.names() == ()
    assert call("inspect", "a-angular.hdf5").code == 0


def test_inspect_finds_facts_that_were_never_looked_for(call: Call) -> None:
    from test_library import SOURCE

    from vectrial.distance import Metric

    library.save("bare", metric=Metric.L2, vectors=X, queries=Q, provenance=SOURCE)
    assert json.loads(call("inspect", "bare", "--format", "jsonl").out)["facts"]["norms"]
    assert library.load("bare").facts["norms"]


def bad_files(folder: Path) -> dict[str, str]:
    """A wrong input of each kind, as arguments of import, and what the message has to say."""
    base = X.copy()
    np.save(folder / "good.npy", base)
    whole = (folder / "good.npy").read_bytes()
    (folder / "short.npy").write_bytes(whole[:-9])
    (folder / "magic.npy").write_bytes(b"\x00" + whole[1:])
    np.save(folder / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    for name, value in (("nan", np.nan), ("inf", np.inf), ("zero", 0.0)):
        x = base.copy()
        x[123] = value
        np.save(folder / f"{name}.npy", x)
    midway = bytearray(layouts.vecs(folder / "midway.fvecs", base, "<f4").read_bytes())
    midway[280] = 7
    (folder / "midway.fvecs").write_bytes(midway)
    (folder / "claims.fbin").write_bytes(b"\x00\x00\x00\x80\x06\x00\x00\x00" + bytes(92))
    layouts.parquet(folder / "twice.parquet", base, id=[1, *range(1, 300)])
    layouts.hdf5(folder / "h.hdf5", base, Q, distance="hamming", point_type="bit")
    layouts.qdrant(folder / "geo", base, Q, [{"and": [{"loc": {"geo": {"lon": 1}}}]}])
    (folder / "page.parquet").write_text("<html>not found</html>")
    (folder / "bad.jsonl").write_text('{"v": [1, 2]}\n{"v": [1, 2\n')
    evil = layouts.tgz(folder / "evil.tgz", folder / "geo", "../../")
    return {
        "missing.npy": "no such file",
        "short.npy": "cut short",
        "magic.npy": "begins with",
        "objects.npy": "pickled Python objects",
        "nan.npy": "nan.npy, row 123: component 0 is nan",
        "inf.npy": "inf.npy, row 123: component 0 is inf",
        "zero.npy": "zero.npy, row 123: the vector is zero",
        "midway.fvecs": "row 10, offset 280: the row claims 7 components",
        "claims.fbin": "claims 2147483648 rows",
        "twice.parquet": "id 1 occurs at row 0 and at row 1",
        "h.hdf5": "bit vectors under hamming distance",
        "geo": "cannot express this condition",
        "page.parquet": "begins with b'<html>'",
        "bad.jsonl": "line 2: the line is not JSON",
        evil.name: "outside the folder",
        "good.npy --id id": "no columns to choose with --id",
        "good.npy --queries many": "neither a number nor a file",
        "good.npy --queries 300": "cannot be held out",
        "good.npy --rows 0": "--rows is at least 1",
        "good.npy --name a/b": "cannot be a dataset's name",
        "good.npy --metric cosin": "'cosin' is no metric",
        "good.npy --seed -1": "--seed",
        "good.npy --wrong 1": "--wrong",
        "twice.parquet --vectors em": "did you mean 'emb'?",
        "twice.parquet --keep colour": "no column 'colour'",
    }


def test_every_wrong_input_ends_with_one_clear_message(call: Call, tmp_path: Path) -> None:
    for arguments, message in bad_files(tmp_path).items():
        given = arguments.split()
        metric = [] if "--metric" in given else ["--metric", "cosine"]
        done = call("import", *given, *metric)
        assert done.code == 2, f"{arguments}: {done}"
        assert done.out == "", arguments
        assert message in done.err, f"{arguments}: {done.err}"
        assert "Traceback" not in done.err
        if "--seed" not in given and "--wrong" not in given:  # typer frames its own
            assert done.err.count("\n") == 1, done.err
    home = tmp_path / "home"
    assert [p for p in home.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "nothing"), "there is no dataset named 'nothing'"),
        (("inspect", "nothing.npy"), "there is no file 'nothing.npy'"),
        (("inspect", "short.npy"), "cut short"),
        (("inspect",), "NAME|FILE"),
    ],
)
def test_wrong_names(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    bad_files(tmp_path)
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_truth_of_an_imported_dataset(call: Call, tmp_path: Path) -> None:
    layouts.parquet(tmp_path / "a.parquet", X, lang=["en", "de"] * 150, n=range(300))
    assert call("import", "a.parquet", "--metric", "l2", "--queries", "20").code == 0
    done = call("truth", "a", "--k", "5", "--format", "jsonl")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["query"] for line in lines] == list(range(20))
    assert all(len(line["ids"]) == line["available"] == 5 for line in lines)
    assert all(line["distances"] == sorted(line["distances"]) for line in lines)
    few = call("truth", "a", "-k", "5", "--filter", '{"range": {"n": {"lt": 2}}}')
    assert few.code == 0
    assert "20 queries" in few.out
    english = call("truth", "a", "--filter", '{"eq": {"lang": "en"}}', "--format", "jsonl")
    for line in english.out.splitlines():
        assert all(row % 2 == 0 for row in json.loads(line)["ids"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "there is no dataset named 'nothing'"),
        (("a", "--k", "0"), "--k"),
        (("a", "--filter", "lang=en"), "--filter: it is not JSON"),
        (("a", "--filter", '{"like": 1}'), "--filter.like: 'like' is not a filter operator"),
        (("a", "--filter", '{"eq": {"colour": 1}}'), "reads column 'colour'|needs metadata"),
    ],
)
def test_truth_that_cannot_be(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    np.save(tmp_path / "a.npy", X)
    assert call("import", "a.npy", "--metric", "l2").code == 0
    done = call("truth", *arguments)
    assert (done.code, done.out) == (2, "")
    assert any(part in done.err for part in message.split("|")), done.err


def test_a_dataset_is_replaced_only_when_told(call: Call, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    assert call("import", "a.npy", "--metric", "ip").code == 0
    done = call("import", "a.npy", "--metric", "l2")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--force" in done.err
    for flag in ("--force", "--yes", "-y"):
        assert call("import", "a.npy", "--metric", "l2", flag).code == 0
    assert library.load("a").metric == "l2"


def test_keep_chooses_metadata(call: Call, tmp_path: Path) -> None:
    layouts.parquet(tmp_path / "a.parquet", X, a=range(300), b=range(300), c=range(300))
    for keep, expected in (("a,c", ["a", "c"]), ("none", [])):
        done = call("import", "a.parquet", "--metric", "l2", "--keep", keep, "-y")
        assert done.code == 0, done.err
        table = library.load("a").metadata
        assert (table.schema.names if table is not None else []) == expected
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 300
