"""The catalogue: names, synthetic datasets, public layouts from a local server, failures."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import reader_layouts as layouts
from command_calls import call
from faulty_http_server import Site, serving

from vectrial.datasets import catalog, library
from vectrial.datasets.catalog.model import listed
from vectrial.datasets.sources import published, synthetic
from vectrial.datasets.sources.material import Material
from vectrial.model.dataset import Provenance
from vectrial.model.errors import DataError, SourceUnavailable, UserError
from vectrial.model.filters import evaluate
from vectrial.model.metric import Metric


def test_every_entry_is_whole() -> None:
    for entry in catalog.entries():
        assert entry == catalog.entry(entry.name)
        assert entry.rows > 0
        assert entry.queries > 0
        assert entry.licence
        assert entry.title
        assert entry.kind is catalog.Kind.SYNTHETIC or entry.fallback != entry.name
        assert catalog.is_made_here(entry.fallback)
        assert len({field.name for field in entry.fields}) == len(entry.fields)
        assert "id" not in {field.name for field in entry.fields}
        if entry.kind is catalog.Kind.OFFLINE:
            assert entry.build is not None
            assert all(len(package.sha256) == 64 for package in entry.packages)
        if entry.published:
            assert all(remote.url.startswith("https://") for _, remote in entry.published.files)


def test_public_addresses() -> None:
    urls = {
        remote.url
        for entry in listed().values()
        if entry.published
        for _, remote in entry.published.files
    }
    assert "https://ann-benchmarks.com/glove-100-angular.hdf5" in urls
    assert "https://storage.googleapis.com/ann-filtered-benchmark/datasets/hnm.tgz" in urls
    assert "https://assets.zilliz.com/benchmark/cohere_large_10m/train-09-of-10.parquet" in urls
    assert "https://assets.zilliz.com/benchmark/openai_medium_500k/scalar_labels.parquet" in urls


def test_variants() -> None:
    base, variant = catalog.entry("glove-words-50"), catalog.entry("glove-words-50-50k")
    assert (variant.rows, variant.dim, variant.metric) == (50_000, 50, Metric.COSINE)
    assert variant.cost.cpu_s < base.cost.cpu_s
    assert variant.fingerprint is None
    assert catalog.entry("debian-minilm-384-filtered-1200").rows == 1_200
    assert catalog.cut(base, 2_000_00).name == "glove-words-50-200k"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("glove-word-50", "did you mean 'glove-words-50'"),
        ("glove-words-50-900k", "has 399,000 rows, 900,000 were asked for"),
        ("debian-minilm-384-10k-5k", "no dataset named"),
        ("glove-words-50-50k-10k", "no dataset named"),
        ("uniform-1-100", "2 to 16384 components"),
        ("uniform-8-0", "1 to 1000m rows"),
        ("../etc", "no dataset named"),
    ],
)
def test_names_that_cannot_be_had(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        catalog.ensure(name)


def test_synthetic_is_the_same_everywhere() -> None:
    # Recorded: a change here would silently change what results under these names mean.
    uniform = catalog.ensure("uniform-8-500")
    clustered = catalog.ensure("clustered-8-1k-cosine-meta")
    told = catalog.ensure("uniform-8-500-text")
    assert uniform.fingerprint[:16] == "872ebf7b35f27041"
    assert clustered.fingerprint[:16] == "dd47fa0a337bbfdf"
    assert told.fingerprint[:16] == "4c34034062b5c9b3"
    assert uniform.vectors.shape == (500, 8)
    assert uniform.queries.shape == (1_000, 8)
    assert uniform.metadata is None
    assert (uniform.vectors >= 0).all()
    assert (uniform.vectors < 1).all()
    assert clustered.metric is Metric.COSINE
    assert clustered.filters is None
    assert clustered.metadata is not None
    assert clustered.metadata.column_names == ["random_number", "category", "price"]


def test_synthetic_entry_tells_the_shape_beforehand() -> None:
    for name in (
        "uniform-8-500", "clustered-8-1k-ip-meta", "clustered-4-300-filtered", "uniform-8-500-text"
    ):  # fmt: skip
        entry, dataset = catalog.entry(name), catalog.ensure(name)
        assert (entry.rows, entry.dim, entry.metric) == (dataset.rows, dataset.dim, dataset.metric)
        assert entry.queries == len(dataset.queries)
        columns = dataset.metadata.column_names if dataset.metadata else []
        assert [field.name for field in entry.fields] == columns
        assert entry.filtered == (dataset.filters is not None)


def test_synthetic_blocks_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "_BLOCK_ROWS", 100)
    for shape in ("uniform", "clustered"):
        vectors = catalog.ensure(f"{shape}-6-1k").vectors
        assert len(np.unique(vectors, axis=0)) == 1_000


def test_texts_are_ten_words_that_come_as_unevenly_as_those_of_people() -> None:
    metadata = catalog.ensure("uniform-4-20k-text").metadata
    assert metadata is not None
    texts = metadata.column("text").to_pylist()
    assert all(len(text.split()) == 10 for text in texts)
    assert np.mean([len(text.encode()) for text in texts]) == pytest.approx(89)
    counts = [count for _, count in Counter(" ".join(texts).split()).most_common()]
    assert 4_900 < len(counts) <= 5_000
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15)
    assert counts[0] / counts[99] == pytest.approx(100, rel=0.25)


def test_clusters_are_clusters() -> None:
    """Neighbours are far nearer than others, which uniform vectors do not show."""
    contrasts = {}
    for shape in ("uniform", "clustered"):
        dataset = catalog.ensure(f"{shape}-32-2k")
        apart = np.linalg.norm(dataset.vectors - dataset.queries[0], axis=1)
        contrasts[shape] = np.sort(apart)[10] / np.median(apart)
    assert contrasts["clustered"] < 0.5 < contrasts["uniform"]


def test_synthetic_filters_can_be_applied() -> None:
    dataset = catalog.ensure("clustered-4-3k-filtered")
    assert dataset.filters is not None
    assert dataset.metadata is not None
    for where in dataset.filters[:60]:
        assert where is not None
        assert evaluate(where, dataset.metadata).any()


def test_imported_datasets_count_as_known() -> None:
    made = library.save(
        "mine",
        metric=Metric.L2,
        vectors=np.eye(3, dtype=np.float32),
        queries=np.eye(3, dtype=np.float32)[:1],
        provenance=Provenance("test", "none", ""),
    )
    assert catalog.ensure("mine").fingerprint == made.fingerprint
    with pytest.raises(UserError, match="did you mean 'mine'"):
        catalog.ensure("mime")


def _offline(build: object, **changes: object) -> catalog.Entry:
    base = replace(listed()["glove-words-50"], name="made", fingerprint=None, packages=())
    return replace(base, build=build, **changes)  # type: ignore[arg-type]


def test_a_source_that_is_gone_names_the_fall_back() -> None:
    def gone(*_: object) -> Material:
        raise SourceUnavailable("the package vanished", remedy="check the network")

    with pytest.raises(
        SourceUnavailable, match="or use 'glove-words-100', or 'clustered-50-50k-cosine'"
    ):
        catalog.fetch(_offline(gone))
    assert library.names() == ()


def test_another_result_than_was_pinned_is_refused() -> None:
    def build(*_: object) -> Material:
        return Material(np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)[:1])

    with pytest.raises(DataError, match=f"{'0' * 64} is pinned"):
        catalog.fetch(_offline(build, fingerprint="0" * 64))
    assert library.names() == ()
    assert catalog.fetch(_offline(build)).rows == 4


def _served(folder: Path) -> dict[str, bytes]:
    return {
        f"/{file.relative_to(folder)}": file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def _public(files: published.Published, metric: Metric) -> catalog.Entry:
    base = listed()["glove-100-angular"]
    return replace(base, name="tiny-angular", published=files, metric=metric, source="here")


X = np.random.RandomState(1).standard_normal((60, 6)).astype(np.float32)
Q = np.random.RandomState(2).standard_normal((5, 6)).astype(np.float32)


def test_ann_benchmarks(tmp_path: Path) -> None:
    site_root = tmp_path / "site"
    site_root.mkdir()
    layouts.hdf5(site_root / "tiny-angular.hdf5", X, Q, distance="angular")
    with serving(Site(_served(site_root), drop_after=[3_000])) as site:
        entry = _public(published.hdf5("tiny-angular", site.url), Metric.COSINE)
        dataset = catalog.fetch(entry)
        np.testing.assert_array_equal(dataset.vectors, X)
        np.testing.assert_array_equal(dataset.queries, Q)
        assert "tiny-angular.hdf5 sha256:" in dataset.provenance.checksum
        assert any("taken on trust" in note for note in dataset.provenance.notes)
        first = catalog.fetch(catalog.cut(entry, 20))
        np.testing.assert_array_equal(first.vectors, X[:20])
        assert first.name == "tiny-angular-20"
    assert [request["path"] for request in site.seen] == ["/tiny-angular.hdf5"] * 2


def test_ann_benchmarks_with_another_metric_than_promised(tmp_path: Path) -> None:
    site_root = tmp_path / "site"
    site_root.mkdir()
    layouts.hdf5(site_root / "tiny-angular.hdf5", X, Q, distance="angular")
    with (
        serving(Site(_served(site_root))) as site,
        pytest.raises(DataError, match="its metric is cosine, not l2"),
    ):
        catalog.fetch(_public(published.hdf5("tiny-angular", site.url), Metric.L2))
    assert library.names() == ()


@pytest.mark.parametrize("conditions", [True, False])
def test_qdrant(tmp_path: Path, conditions: bool) -> None:
    layouts.qdrant(tmp_path / "content", X, Q)
    (tmp_path / "site").mkdir()
    layouts.tgz(tmp_path / "site" / "tiny.tgz", tmp_path / "content", "tiny/")
    with serving(Site(_served(tmp_path / "site"))) as site:
        files = published.qdrant("tiny.tgz", site.url, conditions=conditions)
        dataset = catalog.fetch(_public(files, Metric.COSINE))
    np.testing.assert_array_equal(dataset.vectors, X)
    assert dataset.metadata is not None
    assert "colour" in dataset.metadata.column_names
    assert (dataset.filters is not None and any(dataset.filters)) == conditions


@pytest.mark.parametrize("shards", [1, 10])
def test_vectordbbench(tmp_path: Path, shards: int) -> None:
    (tmp_path / "site").mkdir()
    layouts.vectordbbench(tmp_path / "site" / "cohere_tiny_60", X, Q, shards)
    labels = pa.table({"id": range(60), "labels": [f"label_{i % 3}p" for i in range(60)]})
    pa.parquet.write_table(labels, tmp_path / "site" / "cohere_tiny_60" / "scalar_labels.parquet")
    with serving(Site(_served(tmp_path / "site"))) as site:
        files = published.vectordbbench("cohere_tiny_60", shards, site.url)
        dataset = catalog.fetch(_public(files, Metric.COSINE))
    np.testing.assert_array_equal(dataset.vectors, X)
    np.testing.assert_array_equal(dataset.queries, Q)
    assert dataset.metadata is not None
    assert dataset.metadata.column("labels")[4].as_py() == "label_1p"


def test_miracl_shards(tmp_path: Path) -> None:
    corpus = tmp_path / "site/Cohere/miracl-xx-corpus-22-12/parquet/default/train"
    asked = tmp_path / "site/Cohere/miracl-xx-queries-22-12/parquet/default/dev"
    for folder in (corpus, asked):
        folder.mkdir(parents=True)
    for shard, rows in enumerate(np.array_split(np.arange(60), 12)):
        names = [f"{row}#0" for row in rows]
        layouts.parquet(corpus / f"{shard}.parquet", X[rows], docid=names, title=names, text=names)
    layouts.parquet(asked / "0.parquet", Q, query_id=[str(i) for i in range(5)])
    with serving(Site(_served(tmp_path / "site"))) as site:
        dataset = catalog.fetch(_public(published.miracl("xx", 12, site.url), Metric.IP))
    np.testing.assert_array_equal(dataset.vectors, X)  # shard 10 comes after shard 9
    np.testing.assert_array_equal(dataset.queries, Q)
    assert dataset.metadata is not None
    assert dataset.metadata.column_names == ["docid", "title", "text"]
    assert dataset.metric is Metric.IP


def test_public_source_that_is_gone() -> None:
    with serving(Site({})) as site:
        entry = _public(published.hdf5("tiny-angular", site.url), Metric.COSINE)
        with pytest.raises(SourceUnavailable, match="taken down; or use 'glove-words-100'"):
            catalog.fetch(entry)


def test_commands() -> None:
    code, out, said = call("data", "fetch", "clustered-8-2k-filtered", "uniform-4-300")
    assert (code, out) == (0, "")
    assert "2,000 × 8, l2, 1,000 queries, 3 columns, a filter per query" in said
    _, _, said = call("data", "fetch", "uniform-4-300")
    assert "uniform-4-300 is here already" in said
    _, out, _ = call("data", "list", "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    listed = {row["name"]: row for row in rows}
    assert len(listed) == len(rows)
    assert listed["uniform-4-300"]["cached"] is True
    assert listed["sift-128-euclidean"]["cached"] is False
    assert listed["sift-images-128"]["stand_in_for"] == "sift-128-euclidean"
    _, table, _ = call("data", "list")
    assert all(name in table for name in listed)
    assert max(map(len, table.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gist-960-euclidean",), "add --yes"),
        (("glove-words-100", "--rows", "336480"), "has 336,479 rows"),
        (("clustered-8-2k", "--rows", "5"), "made as a whole"),
    ],
)
def test_commands_with_wrong_input(arguments: tuple[str, ...], said: str) -> None:
    code, _, error = call("data", "fetch", *arguments)
    assert code == 2
    assert said in error
