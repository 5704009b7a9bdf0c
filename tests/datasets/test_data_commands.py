"""The data commands as a person meets them: exit codes, stdout, stderr."""

import csv
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_calls
import numpy as np
import pyarrow.parquet as pq
import pytest
import reader_layouts as layouts
from command_calls import Call

from vectrial.datasets import catalog, library

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 6)).astype(np.float32)
Q = RNG.standard_normal((9, 6)).astype(np.float32)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `vectrial data` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return functools.partial(command_calls.call, "data")


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

    from vectrial.model.metric import Metric

    library.save("bare", metric=Metric.L2, vectors=X, queries=Q, provenance=SOURCE)
    assert json.loads(call("inspect", "bare", "--format", "jsonl").out)["facts"]["norms"]
    assert library.load("bare").facts["norms"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "nothing"), "there is no dataset named 'nothing'"),
        (("inspect", "nothing.npy"), "there is no file 'nothing.npy'"),
        (("inspect", "short.npy"), "cut short"),
        (("inspect",), "NAME|FILE"),
        (("import", "good.npy", "--metric", "cosin"), "'cosin' is no metric"),
        (("import", "good.npy", "--metric", "l2", "--seed", "-1"), "--seed"),
        (
            ("import", "good.npy", "--metric", "l2", "--queries", "many"),
            "neither a number nor a file",
        ),
    ],
)
def test_wrong_names(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    np.save(tmp_path / "good.npy", X)
    (tmp_path / "short.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-9])
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
    assert re.search(r"'a' exists already.*--name.*--force", done.err)
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


# -- the list ------------------------------------------------------------------------------------


def test_a_narrow_list_has_whole_figures(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_library import SOURCE

    from vectrial.model.metric import Metric

    name = "some-company-product-descriptions-2026-openai-3-large-cut"
    library.save(name, metric=Metric.L2, vectors=X, queries=Q, provenance=SOURCE)
    (line,) = (line for line in call("list").out.splitlines() if name in line)
    assert line.split()[1:5] == [name, "300", "6", "l2"], "in a pipe, on one line"
    monkeypatch.setenv("COLUMNS", "60")
    narrow = call("list").out
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines()[:-4])) <= 60
    listed = [json.loads(line) for line in call("list", "--format", "jsonl").out.splitlines()]
    assert len(listed) > 20
    for row in listed:
        figures = [f"{row['rows']:,}", str(row["dim"]), row["metric"]]
        found = [line.split() for line in narrow.splitlines() if figures[0] in line.split()]
        assert any(figures == line[at : at + 3] for line in found for at in range(3)), row


def test_a_damaged_dataset_hides_no_other(call: Call, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    for name in ("bad", "good", "other"):
        assert call("import", "a.npy", "--metric", "l2", "--name", name).code == 0
    (library.path("bad") / "vectors.npy").write_bytes(b"cut short")
    manifest = library.path("other") / "dataset.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    done = call("list", "--format", "jsonl")
    assert done.code == 0, done.err
    names = {json.loads(line)["name"] for line in done.out.splitlines()}
    assert "good" in names
    assert not {"bad", "other"} & names
    assert len(done.err.splitlines()) == 2
    assert "bad/vectors.npy" in done.err
    assert "layout 99" in done.err


# -- what is no number, and what is not read -----------------------------------------------------


def test_what_is_no_number_is_json_all_the_same(call: Call, tmp_path: Path) -> None:
    score = [float("nan"), float("inf"), float("-inf"), 1.0, 1.0] * 60
    layouts.parquet(tmp_path / "a.parquet", X, score=score)

    def never(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    for arguments in (
        ("inspect", "a.parquet"),
        ("import", "a.parquet", "--metric", "l2", "--queries", "5"),
        ("inspect", "a"),
        ("fetch", "a"),
    ):
        done = call(*arguments, "--format", "jsonl")
        assert done.code == 0, done.err
        top = json.loads(done.out, parse_constant=never)["facts"]["metadata"]["score"]["top"]
        assert {value for value, _ in top} == {"Infinity", "-Infinity", 1.0}, "NaN is missing"
    kept = library.path("a") / "dataset.json"
    json.loads(kept.read_text(), parse_constant=never)
    kept.write_text(
        kept.read_text().replace('"Infinity"', "Infinity")
    )  # as earlier versions wrote it
    done = call("inspect", "a", "--format", "jsonl")
    json.loads(done.out, parse_constant=never)


@pytest.mark.parametrize(
    ("suffix", "written"),
    [
        (".csv", json.dumps),
        (".tsv", json.dumps),
        (".csv", lambda x: str(np.array(x))),
    ],
    ids=["csv", "tsv", "as pandas writes arrays"],
)
def test_a_table_of_text_is_imported(
    call: Call, tmp_path: Path, suffix: str, written: Callable[[Any], str]
) -> None:
    with (tmp_path / f"my{suffix}").open("w", newline="") as out:
        writer = csv.writer(out, delimiter="," if suffix == ".csv" else "\t")
        writer.writerow(("id", "lang", "embedding"))
        writer.writerows((n, "en", written(x.tolist())) for n, x in enumerate(X))
    arguments = ("--metric", "l2", "--queries", "10", "--format", "jsonl")
    done = call("import", f"my{suffix}", *arguments)
    assert done.code == 0, done.err
    assert json.loads(done.out)["metadata"] == {"lang": "string"}
    found = library.load("my")
    np.testing.assert_allclose(found.vectors, X[found.ids], atol=1e-6)


def test_json_that_is_not_read_is_made_into_what_is(call: Call, tmp_path: Path) -> None:
    """What is said is what works."""
    file = tmp_path / "my.json"
    rows = [{"id": n, "lang": "en", "embedding": x.tolist()} for n, x in enumerate(X)]
    file.write_text(json.dumps(rows))
    done = call("import", str(file), "--metric", "l2")
    assert (done.code, done.out) == (2, "")
    said = re.search(r"in Python: (import duckdb; .*\.parquet'\))", done.err)
    assert said is not None, done.err
    subprocess.run([sys.executable, "-c", said[1]], check=True)
    done = call("import", "my.parquet", "--metric", "l2", "--queries", "10", "--format", "jsonl")
    assert done.code == 0, done.err
    assert json.loads(done.out)["metadata"] == {"lang": "string"}
    found = library.load("my")
    np.testing.assert_allclose(found.vectors, X[found.ids], atol=1e-6)


# -- fetching ------------------------------------------------------------------------------------


def test_what_is_here_costs_nothing_also_a_part_of_an_entry(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_library import SOURCE

    from vectrial.model.metric import Metric

    def never(*given: object) -> None:
        pytest.fail("it is here")

    name = "deep-image-96-angular-300"
    library.save(name, metric=Metric.COSINE, vectors=X, queries=Q, provenance=SOURCE)
    monkeypatch.setattr(catalog, "fetch", never)
    part = ("fetch", "deep-image-96-angular", "--rows", "300")
    done = call(*part)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{name} is here already\n"
    done = call(*part, "--format", "jsonl")
    assert json.loads(done.out)["name"] == name


def test_a_dataset_of_ones_own_is_not_cut_by_fetching(call: Call, tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", X)
    assert call("import", "mine.npy", "--metric", "l2").code == 0
    done = call("fetch", "mine", "--rows", "10")
    assert (done.code, done.out) == (2, "")
    assert "'mine' is a dataset of your own" in done.err
    assert "did you mean" not in done.err


def test_what_is_fetched_can_be_piped(call: Call) -> None:
    done = call("fetch", "uniform-4-300", "clustered-8-1k", "uniform-4-300", "-f", "jsonl")
    assert done.code == 0, done.err
    names = [json.loads(line)["name"] for line in done.out.splitlines()]
    assert names == ["uniform-4-300", "clustered-8-1k", "uniform-4-300"]


# -- removing ------------------------------------------------------------------------------------


def test_only_what_is_named_is_removed_and_not_without_consent(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", X)
    for name in ("one", "two", "three"):
        assert call("import", "a.npy", "--metric", "l2", "--name", name).code == 0
    done = call("remove", "one")
    assert (done.code, done.out) == (2, "")
    assert "needs consent (add --yes)" in done.err
    done = call("remove", "one", "tow", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'two'?" in done.err
    assert call("remove", "../one", "--yes").code == 2
    assert library.names() == ("one", "three", "two")
    (library.path("one") / "dataset.json").write_text("{damaged")
    done = call("remove", "one", "two", "one", "--yes", "--format", "jsonl")
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["name"], one["removed"]) for one in told] == [("one", True), ("two", True)]
    assert library.names() == ("three",)
    assert (tmp_path / "a.npy").is_file()
    library.verify("three")
