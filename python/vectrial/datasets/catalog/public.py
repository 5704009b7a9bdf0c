"""Public entries: the datasets of the field, by URL."""

from __future__ import annotations

from vectrial.datasets.catalog.model import Cost, Entry, Kind, columns
from vectrial.datasets.sources import published
from vectrial.model.metric import Metric
from vectrial.model.store import Field


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


_HNM_FIELDS = columns(
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
        fields=columns(strings="labels"),
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
        fields=columns(strings="docid title text"),
    )
    for language, title, shards, rows, queries, mb in (
        ("yo", "Yoruba", 1, 49_043, 119, 170),
        ("sw", "Swahili", 1, 131_924, 482, 450),
    )
)


PUBLIC = (*_ANN_BENCHMARKS, *_QDRANT, *_VECTORDBBENCH, *_MIRACL)
