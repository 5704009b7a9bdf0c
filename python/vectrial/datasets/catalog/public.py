"""Public entries: the datasets of the field, by URL."""

from __future__ import annotations

from typing import Any

from vectrial.datasets.catalog.model import Cost, Entry, Kind, columns, entry_of
from vectrial.datasets.sources import published
from vectrial.model.metric import Metric


def _public(name: str, title: str, files: published.Published, **more: Any) -> Entry:
    source = files.files[0][1].url
    return entry_of(
        Kind.PUBLIC, name, title, published=files, source=source, can_be_cut=True, **more
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
_COHERE, _OPENAI = "Cohere embeddings of Wikipedia", "OpenAI embeddings of C4"
_NOT_STATED = "not stated by the publisher"

_ANN_BENCHMARKS = tuple(
    _public(
        name,
        f"{title} (ann-benchmarks)",
        published.hdf5(name),
        shape=shape,
        cost=Cost(*cost),
        licence=licence,
        fallback=fallback,
    )
    for name, title, shape, cost, licence, fallback in (
        ("glove-100-angular", "GloVe Twitter 27B word vectors",
         (1_183_514, 100, Metric.COSINE, 10_000), (485, 970, 10), "PDDL-1.0", "glove-words-100"),
        ("sift-128-euclidean", "SIFT1M",
         (1_000_000, 128, Metric.L2, 10_000), (525, 1050, 10), "CC0-1.0", "sift-images-128"),
        ("gist-960-euclidean", "GIST1M",
         (1_000_000, 960, Metric.L2, 1_000), (3_900, 7_700, 60), "CC0-1.0", "mnist-784"),
        ("deep-image-96-angular", "DEEP10M image features",
         (9_990_000, 96, Metric.COSINE, 10_000), (3_900, 7_800, 60), _NOT_STATED,
         "sift-images-128"),
    )
)  # fmt: skip


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


_VECTORDBBENCH = tuple(
    _public(
        name,
        f"{title} (VectorDBBench)",
        published.vectordbbench(folder, train_files),
        shape=(*shape, Metric.COSINE, 1_000),
        cost=Cost(mb, 2 * mb, mb / 50),
        licence=_NOT_STATED,
        fallback="wordnet-minilm-384",
        fields=columns(strings="labels"),
    )
    for title, name, folder, shape, train_files, mb in (
        (_COHERE, "cohere-768-100k", "cohere_small_100k", (100_000, 768), 1, 310),
        (_COHERE, "cohere-768-1m", "cohere_medium_1m", (1_000_000, 768), 1, 3_100),
        (_COHERE, "cohere-768-10m", "cohere_large_10m", (10_000_000, 768), 10, 31_000),
        (_OPENAI, "openai-1536-50k", "openai_small_50k", (50_000, 1536), 1, 600),
        (_OPENAI, "openai-1536-500k", "openai_medium_500k", (500_000, 1536), 1, 6_100),
        (_OPENAI, "openai-1536-5m", "openai_large_5m", (5_000_000, 1536), 10, 61_000),
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
