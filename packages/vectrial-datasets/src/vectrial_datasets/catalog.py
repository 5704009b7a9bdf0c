"""Entries of the catalogue: made of packages, each pinned by version and sha256."""

from __future__ import annotations

from functools import partial

from vectrial.datasets.catalog.model import Cost, Entry, Kind, columns, entry_of
from vectrial.datasets.sources import minilm
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT
from vectrial.model.metric import Metric
from vectrial_datasets.sources import dictionaries, efficientnet, images, texts, textures, vit

_LABEL_FIELDS = columns(integers="label random_number", strings="label_name")
_GLOSS_FIELDS = columns(
    integers="n_words n_pointers random_number", strings="word pos lex_file gloss"
)
_ENTRY_FIELDS = columns(integers="n_words random_number", strings="dictionary word text")


_offline = partial(entry_of, Kind.OFFLINE, can_be_cut=True)
_labelled = partial(
    entry_of,
    Kind.OFFLINE,
    fields=columns(strings=CLASS),
    filtered=True,
    operators=frozenset({"eq"}),
    query_fields=columns(strings=f"{CLASS} {DEFECT}", bools=ANOMALOUS),
    stand_in_for="mvtec-dino-384",
)

#: Pictures of textures: rows, and queries.
_DRAWN = (
    textures.CLASSES * textures.STORED,
    textures.CLASSES * (textures.GOOD_ONES + textures.FAULTY),
)
# Queries are labelled: normal ones, and anomalies. See `vectrial.model.labels`.
_ANOMALY = (
    _labelled(
        "texture-defects-384",
        "ViT-S/14 features of textures, whole and with synthetic defects",
        licence="GPL-2+ and public domain (images, by class), MIT (model)",
        shape=(_DRAWN[0], vit.DIM, Metric.COSINE, _DRAWN[1]),
        cost=Cost(198, 4, 660),
        packages=(textures.SCIKIT_IMAGE, textures.OPENARENA, vit.PACKAGE),
        build=textures.made_by_transformer,
        fallback="texture-defects-1280",
    ),
    _labelled(
        "texture-defects-1280",
        "EfficientNet-Lite0 features of textures, whole and with synthetic defects",
        licence="GPL-2+ and public domain (images, by class), Apache-2.0 (model)",
        shape=(_DRAWN[0], efficientnet.HEAD_DIM, Metric.COSINE, _DRAWN[1]),
        cost=Cost(125, 14, 40),
        packages=(textures.SCIKIT_IMAGE, textures.OPENARENA, efficientnet.PACKAGE),
        build=textures.made,
        fallback="fashion-outliers-2048",
    ),
    _labelled(
        "fashion-outliers-2048",
        "EfficientNet-Lite0 features of Fashion-MNIST, other classes as anomalies",
        licence="MIT (images), Apache-2.0 (model)",
        shape=(1_330, efficientnet.DIM, Metric.COSINE, 1_120),
        cost=Cost(48, 20, 3),
        packages=(images.FASHION, efficientnet.PACKAGE),
        build=images.fashion_outliers,
        fallback="clustered-2048-50k-cosine-filtered",
    ),
)


def _filterable(filtered: bool) -> tuple[Entry, ...]:
    suffix = "-filtered" if filtered else ""
    with_filters = ", a filter per query" if filtered else ""
    return (
        _offline(
            f"wordnet-minilm-384{suffix}",
            f"MiniLM embeddings of WordNet's glosses{with_filters}",
            licence="WordNet 3.0 licence (texts), Apache-2.0 (model)",
            shape=(116_033, 384, Metric.COSINE, 1_000),
            cost=Cost(90, 600, 720),
            packages=(dictionaries.WORDNET, minilm.PACKAGE),
            build=partial(texts.glosses, filtered=filtered),
            fields=_GLOSS_FIELDS,
            stand_in_for="arxiv-titles-384-angular",
            filtered=filtered,
            fallback="clustered-384-100k-cosine" + ("-filtered" if filtered else ""),
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


_DICTIONARIES = _offline(
    "dictionaries-minilm-384",
    "MiniLM embeddings of three dictionaries: WordNet, GCIDE, EDICT",
    licence="WordNet 3.0 licence, GPL-2+ (GCIDE), CC-BY-SA (EDICT), Apache-2.0 (model)",
    shape=(467_566, 384, Metric.COSINE, 1_000),
    cost=Cost(109, 800, 2_600),
    packages=(dictionaries.WORDNET, dictionaries.GCIDE, dictionaries.EDICT, minilm.PACKAGE),
    build=texts.dictionaries,
    fields=_ENTRY_FIELDS,
    stand_in_for="arxiv-titles-384-angular",
    fallback="wordnet-minilm-384",
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


OFFLINE = (*_ANOMALY, *_filterable(False), _DICTIONARIES, *_filterable(True), *_PIXELS)
