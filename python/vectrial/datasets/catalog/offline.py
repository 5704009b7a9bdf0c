"""Offline entries that the suites of Vectrial name, and variants of them: made of packages, each
pinned by version and sha256. The package `vectrial-datasets` has more."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vectrial.datasets.catalog.model import Cost, Entry, Kind, columns, entry_of
from vectrial.datasets.sources import minilm, sift, texts, words
from vectrial.model.metric import Metric

_WORD_FIELDS = columns(integers="rank letters random_number", strings="word initial kind")
_PACKAGE_FIELDS = columns(
    integers="download_size installed_kib n_depends n_recommends random_number",
    bools="has_suggests",
    strings="package source version section area priority architecture multi_arch maintainer"
    " maintainer_domain homepage_domain tags role implemented_in interface use works_with suite"
    " field description",
)
_IMAGE_FIELDS = columns(strings="image", floats="size_px")


_offline = partial(entry_of, Kind.OFFLINE, can_be_cut=True)

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
        "glove-words-50-filtered",
        "GloVe 6B word vectors, most frequent first, a filter per query",
        licence="PDDL-1.0 (vectors), Apache-2.0 (package)",
        shape=(399_000, 50, Metric.COSINE, 1_000),
        cost=Cost(76, 100, 10),
        packages=(words.WORDS_50,),
        build=partial(words.words_50, filtered=True),
        fields=_WORD_FIELDS,
        filtered=True,
        fallback="clustered-64-50k-cosine-filtered",
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
        fingerprint="cbe0f588ed93702e6bcd960c18285376f88aa46bf499d020e02aa63093a433a5",
        fallback="glove-words-50",
    ),
)

_SIFT_FULL = _offline(
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
)

_SIFT = (
    _SIFT_FULL,
    # For stores that only search by cosine, such as Redis' vector sets.
    replace(
        _SIFT_FULL,
        name="sift-images-128-cosine",
        title="the same SIFT descriptors, compared by cosine",
        metric=Metric.COSINE,
        stand_in_for=None,
        fallback="sift-images-128",
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


def _debian(filtered: bool) -> Entry:
    suffix = "-filtered" if filtered else ""
    with_filters = ", a filter per query" if filtered else ""
    return _offline(
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
    )


OFFLINE = (*_WORDS, *_SIFT, _debian(False), _debian(True))
