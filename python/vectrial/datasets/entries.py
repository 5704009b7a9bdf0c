"""What the catalogue lists: every entry, with its pins and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from vectrial.datasets.progress import Progress
from vectrial.datasets.sources import (
    efficientnet,
    images,
    minilm,
    published,
    sift,
    texts,
    wordnet,
    words,
)
from vectrial.datasets.sources.material import Material
from vectrial.datasets.sources.packages import Package
from vectrial.distance import Metric
from vectrial.stores.base import Field, FieldType

#: Rows wanted (None: all), queries, progress → what to save.
Build = Callable[[int | None, int, Progress], Material]


class Kind(StrEnum):
    """Where an entry comes from."""

    OFFLINE = "offline"  # packages, through their registry's client
    PUBLIC = "public"  # files by URL
    SYNTHETIC = "synthetic"  # nothing to fetch


@dataclass(frozen=True)
class Cost:
    """Rough cost of fetching and making: 10^6 bytes to fetch and to store, CPU seconds."""

    download_mb: float
    disk_mb: float
    cpu_s: float


@dataclass(frozen=True)
class Entry:
    """A dataset that can be had.

    rows, dim, metric, queries, fields: shape of the result; rows of a source that changes
        (Debian's lists) are those that were found when the catalogue was written.
    packages, build: an offline entry's sources and how it is made of them.
    published: a public entry's files.
    can_be_cut: whether variants such as `NAME-10k` exist, which cost accordingly less.
    cut_from: the entry that this is a variant of.
    fingerprint: that of the dataset, where it is the same on every machine.
    fallback: another entry to use when this one cannot be had.
    """

    name: str
    kind: Kind
    title: str
    source: str
    licence: str
    rows: int
    dim: int
    metric: Metric
    queries: int
    cost: Cost
    fields: tuple[Field, ...] = ()
    filtered: bool = False
    stand_in_for: str | None = None
    packages: tuple[Package, ...] = ()
    build: Build | None = None
    published: published.Published | None = None
    can_be_cut: bool = False
    fingerprint: str | None = None
    fallback: str = "uniform-128-100k"
    cut_from: str | None = None


def _fields(
    *, integers: str = "", floats: str = "", strings: str = "", bools: str = ""
) -> tuple[Field, ...]:
    groups = (
        (integers, FieldType.INT),
        (floats, FieldType.FLOAT),
        (strings, FieldType.STRING),
        (bools, FieldType.BOOL),
    )
    return tuple(Field(name, kind) for names, kind in groups for name in names.split())


_WORD_FIELDS = _fields(integers="rank letters random_number", strings="word initial kind")
_LABEL_FIELDS = _fields(integers="label random_number", strings="label_name")
_GLOSS_FIELDS = _fields(
    integers="n_words n_pointers random_number", strings="word pos lex_file gloss"
)
_PACKAGE_FIELDS = _fields(
    integers="download_size installed_kib n_depends n_recommends random_number",
    bools="has_suggests",
    strings="package source version section area priority architecture multi_arch maintainer"
    " maintainer_domain homepage_domain tags role implemented_in interface use works_with suite"
    " field description",
)
_IMAGE_FIELDS = _fields(strings="image", floats="size_px")


def _offline(
    name: str,
    title: str,
    *,
    licence: str,
    shape: tuple[int, int, Metric, int],
    cost: Cost,
    packages: tuple[Package, ...],
    build: Build,
    fields: tuple[Field, ...],
    source: str = "",
    stand_in_for: str | None = None,
    can_be_cut: bool = True,
    filtered: bool = False,
    fingerprint: str | None = None,
    fallback: str = "uniform-128-100k",
) -> Entry:
    rows, dim, metric, queries = shape
    return Entry(
        name=name,
        kind=Kind.OFFLINE,
        title=title,
        source=source or ", ".join(map(str, packages)),
        licence=licence,
        rows=rows,
        dim=dim,
        metric=metric,
        queries=queries,
        cost=cost,
        fields=fields,
        filtered=filtered,
        stand_in_for=stand_in_for,
        packages=packages,
        build=build,
        can_be_cut=can_be_cut,
        fingerprint=fingerprint,
        fallback=fallback,
    )


_WORDS = (
    _offline(
        "glove-words-50",
        "GloVe 6B word vectors, most frequent first",
        licence="PDDL-1.0 (vectors), Apache-2.0 (package)",
        shape=(399_000, 50, Metric.COSINE, 1_000),
        cost=Cost(76, 180, 3),
        packages=(words.WORDS_50,),
        build=words.words_50,
        fields=_WORD_FIELDS,
        stand_in_for="glove-100-angular",
        fingerprint="e5fd76514dc52c3f8cfec9695fc173d0bd7fff78c9a843763e7a9683d9f5dee8",
        fallback="glove-words-100",
    ),
    _offline(
        "glove-words-100",
        "GloVe 6B word vectors, most frequent first",
        licence="PDDL-1.0 (vectors), MIT (package)",
        shape=(336_479, 100, Metric.COSINE, 5_000),
        cost=Cost(118, 720, 35),
        packages=(words.WORDS_100,),
        build=words.words_100,
        fields=_WORD_FIELDS,
        stand_in_for="glove-100-angular",
        fallback="glove-words-50",
    ),
)

_SIFT = (
    _offline(
        "sift-images-128",
        "SIFT descriptors of desktop backgrounds, queries from held-out images",
        licence="CC-BY, CC-BY-SA, CC0 or GPL-2+, by image",
        shape=(1_000_000, 128, Metric.L2, 5_000),
        cost=Cost(222, 560, 230),
        packages=sift.FULL.packages,
        build=partial(sift.descriptors, sift.FULL),
        fields=_IMAGE_FIELDS,
        stand_in_for="sift-128-euclidean",
        fallback="sift-images-128-100k",
    ),
    _offline(
        "sift-images-128-100k",
        "SIFT descriptors of desktop backgrounds, a quick hundred thousand",
        licence="CC-BY, CC-BY-SA, CC0 or GPL-2+, by image",
        shape=(100_000, 128, Metric.L2, 1_000),
        cost=Cost(49, 56, 25),
        packages=sift.QUICK.packages,
        build=partial(sift.descriptors, sift.QUICK),
        fields=_IMAGE_FIELDS,
        stand_in_for="sift-128-euclidean",
        fallback="mnist-784",
    ),
)


def _texts(filtered: bool) -> tuple[Entry, ...]:
    suffix = "-filtered" if filtered else ""
    with_filters = ", a filter per query" if filtered else ""
    return (
        _offline(
            f"wordnet-minilm-384{suffix}",
            f"MiniLM embeddings of WordNet's glosses{with_filters}",
            licence="WordNet 3.0 licence (texts), Apache-2.0 (model)",
            shape=(116_033, 384, Metric.COSINE, 1_000),
            cost=Cost(90, 600, 720),
            packages=(wordnet.PACKAGE, minilm.PACKAGE),
            build=partial(texts.glosses, filtered=filtered),
            fields=_GLOSS_FIELDS,
            stand_in_for="arxiv-titles-384-angular",
            filtered=filtered,
            fallback="clustered-384-100k-cosine" + ("-filtered" if filtered else ""),
        ),
        _offline(
            f"debian-minilm-384{suffix}",
            f"MiniLM embeddings of Debian's package descriptions{with_filters}",
            licence="free licences of the packages (texts), Apache-2.0 (model)",
            shape=(59_004, 384, Metric.COSINE, 1_000),
            cost=Cost(84, 400, 200),
            packages=(minilm.PACKAGE,),
            build=partial(texts.packages, filtered=filtered),
            fields=_PACKAGE_FIELDS,
            source=f"the package lists of this machine's apt, {minilm.PACKAGE}",
            stand_in_for="h-and-m-2048-angular" + ("-filters" if filtered else ""),
            filtered=filtered,
            fallback=f"wordnet-minilm-384{suffix}",
        ),
        _offline(
            f"fashion-images-2048{suffix}",
            f"EfficientNet-Lite0 features of Fashion-MNIST{with_filters}",
            licence="MIT (images), Apache-2.0 (model)",
            shape=(69_000, 2048, Metric.COSINE, 1_000),
            cost=Cost(48, 1200, 80),
            packages=(images.FASHION, efficientnet.PACKAGE),
            build=partial(images.fashion_features, filtered=filtered),
            fields=_LABEL_FIELDS,
            stand_in_for="h-and-m-2048-angular" + ("-filters" if filtered else ""),
            filtered=filtered,
            fallback="clustered-2048-50k-cosine" + ("-filtered" if filtered else ""),
        ),
    )


_PIXELS = (
    _offline(
        "fashion-mnist-784",
        "Fashion-MNIST as pixels, test images as queries",
        licence="MIT",
        shape=(60_000, 784, Metric.L2, 10_000),
        cost=Cost(31, 290, 2),
        packages=(images.FASHION,),
        build=images.fashion,
        fields=_LABEL_FIELDS,
        stand_in_for="fashion-mnist-784-euclidean",
        fingerprint="76c107d4927d8a1ed46cefea0df550840d2c6db4de9cab2fae836f89e0a5ba9a",
        fallback="mnist-784",
    ),
    _offline(
        "mnist-784",
        "MNIST as pixels, test images as queries",
        licence="CC-BY-SA-3.0 (images), ISC (package)",
        shape=(60_000, 784, Metric.L2, 10_000),
        cost=Cost(12, 290, 2),
        packages=(images.DIGITS,),
        build=images.digits,
        fields=_LABEL_FIELDS,
        stand_in_for="mnist-784-euclidean",
        fingerprint="c21e36056ddd535612075dea91f250c12df5cbb33c5872d37230009e927eec81",
        fallback="fashion-mnist-784",
    ),
)


def _public(
    name: str,
    title: str,
    files: published.Published,
    *,
    shape: tuple[int, int, Metric, int],
    cost: Cost,
    licence: str,
    fallback: str,
    fields: tuple[Field, ...] = (),
    filtered: bool = False,
) -> Entry:
    rows, dim, metric, queries = shape
    return Entry(
        name=name,
        kind=Kind.PUBLIC,
        title=title,
        source=files.files[0][1].url,
        licence=licence,
        rows=rows,
        dim=dim,
        metric=metric,
        queries=queries,
        cost=cost,
        fields=fields,
        filtered=filtered,
        published=files,
        can_be_cut=True,
        fallback=fallback,
    )


_HNM_FIELDS = _fields(
    integers="product_code product_type_no graphical_appearance_no colour_group_code"
    " perceived_colour_value_id perceived_colour_master_id department_no index_group_no"
    " section_no garment_group_no",
    strings="prod_name product_type_name product_group_name graphical_appearance_name"
    " colour_group_name perceived_colour_value_name perceived_colour_master_name"
    " department_name index_code index_name index_group_name section_name garment_group_name"
    " detail_desc",
)
_NOT_STATED = "not stated by the publisher"

_ANN_BENCHMARKS = (
    _public(
        "glove-100-angular",
        "GloVe Twitter 27B word vectors (ann-benchmarks)",
        published.hdf5("glove-100-angular"),
        shape=(1_183_514, 100, Metric.COSINE, 10_000),
        cost=Cost(485, 970, 10),
        licence="PDDL-1.0",
        fallback="glove-words-100",
    ),
    _public(
        "sift-128-euclidean",
        "SIFT1M (ann-benchmarks)",
        published.hdf5("sift-128-euclidean"),
        shape=(1_000_000, 128, Metric.L2, 10_000),
        cost=Cost(525, 1050, 10),
        licence="CC0-1.0",
        fallback="sift-images-128",
    ),
    _public(
        "gist-960-euclidean",
        "GIST1M (ann-benchmarks)",
        published.hdf5("gist-960-euclidean"),
        shape=(1_000_000, 960, Metric.L2, 1_000),
        cost=Cost(3_900, 7_700, 60),
        licence="CC0-1.0",
        fallback="mnist-784",
    ),
    _public(
        "deep-image-96-angular",
        "DEEP10M image features (ann-benchmarks)",
        published.hdf5("deep-image-96-angular"),
        shape=(9_990_000, 96, Metric.COSINE, 10_000),
        cost=Cost(3_900, 7_800, 60),
        licence=_NOT_STATED,
        fallback="sift-images-128",
    ),
)


# The archive of arXiv titles with filters is left out: its conditions read the field `label`,
# which its payloads do not have, so that no row passes them.
_QDRANT = (
    _public(
        "arxiv-titles-384-angular",
        "MiniLM embeddings of arXiv titles (qdrant)",
        published.qdrant("arxiv_no_filters.tar.gz", conditions=False),
        shape=(2_138_591, 384, Metric.COSINE, 10_000),
        cost=Cost(3_000, 7_000, 120),
        licence="CC0-1.0 (titles)",
        fallback="wordnet-minilm-384",
    ),
    _public(
        "h-and-m-2048-angular",
        "EfficientNet features of H&M products (qdrant)",
        published.qdrant("hnm_no_filters.tgz", conditions=False),
        shape=(105_100, 2048, Metric.COSINE, 2_000),
        cost=Cost(600, 2_500, 60),
        licence=_NOT_STATED,
        fallback="fashion-images-2048",
    ),
    _public(
        "h-and-m-2048-angular-filters",
        "EfficientNet features of H&M products, a filter per query (qdrant)",
        published.qdrant("hnm.tgz"),
        shape=(105_100, 2048, Metric.COSINE, 2_000),
        cost=Cost(600, 2_500, 60),
        licence=_NOT_STATED,
        fallback="fashion-images-2048-filtered",
        fields=_HNM_FIELDS,
        filtered=True,
    ),
)


def _of_vectordbbench(
    name: str, folder: str, title: str, shape: tuple[int, int], train_files: int, mb: float
) -> Entry:
    return _public(
        name,
        f"{title} (VectorDBBench)",
        published.vectordbbench(folder, train_files),
        shape=(*shape, Metric.COSINE, 1_000),
        cost=Cost(mb, 2 * mb, mb / 50),
        licence=_NOT_STATED,
        fallback="wordnet-minilm-384",
        fields=_fields(strings="labels"),
    )


_VECTORDBBENCH = tuple(
    _of_vectordbbench(*row)
    for row in (
        (
            "cohere-768-100k",
            "cohere_small_100k",
            "Cohere embeddings of Wikipedia",
            (100_000, 768),
            1,
            310,
        ),
        (
            "cohere-768-1m",
            "cohere_medium_1m",
            "Cohere embeddings of Wikipedia",
            (1_000_000, 768),
            1,
            3_100,
        ),
        (
            "cohere-768-10m",
            "cohere_large_10m",
            "Cohere embeddings of Wikipedia",
            (10_000_000, 768),
            10,
            31_000,
        ),
        (
            "openai-1536-50k",
            "openai_small_50k",
            "OpenAI embeddings of C4",
            (50_000, 1536),
            1,
            600,
        ),
        (
            "openai-1536-500k",
            "openai_medium_500k",
            "OpenAI embeddings of C4",
            (500_000, 1536),
            1,
            6_100,
        ),
        (
            "openai-1536-5m",
            "openai_large_5m",
            "OpenAI embeddings of C4",
            (5_000_000, 1536),
            10,
            61_000,
        ),
    )
)

_MIRACL = tuple(
    _public(
        f"miracl-{language}-768",
        f"Cohere embeddings of the MIRACL corpus, {title}",
        published.miracl(language, shards),
        shape=(rows, 768, Metric.IP, queries),
        cost=Cost(mb, 2 * mb, mb / 50),
        licence="Apache-2.0",
        fallback="wordnet-minilm-384",
        fields=_fields(strings="docid title text"),
    )
    for language, title, shards, rows, queries, mb in (
        ("yo", "Yoruba", 1, 49_043, 119, 170),
        ("sw", "Swahili", 1, 131_924, 482, 450),
    )
)

#: Every entry that is listed, by name. Variants and synthetic datasets have names beyond these.
ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *_WORDS,
        *_SIFT,
        *_texts(False),
        *_texts(True),
        *_PIXELS,
        *_ANN_BENCHMARKS,
        *_QDRANT,
        *_VECTORDBBENCH,
        *_MIRACL,
    )
}

#: Names shown as examples of variants and of synthetic datasets.
EXAMPLES = (
    "glove-words-50-50k",
    "wordnet-minilm-384-10k",
    "uniform-128-100k",
    "clustered-64-50k",
    "clustered-64-50k-filtered",
)
