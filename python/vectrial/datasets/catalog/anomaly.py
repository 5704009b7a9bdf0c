"""Offline entries with labelled queries: normal ones, and anomalies. See `labelled`."""

from __future__ import annotations

from vectrial.datasets.catalog.model import Build, Cost, Entry, Kind, columns
from vectrial.datasets.sources import efficientnet, images, textures
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT
from vectrial.model.metric import Metric
from vectrial.util.packages import Package


def _labelled(
    name: str,
    title: str,
    *,
    licence: str,
    shape: tuple[int, int, int],
    cost: Cost,
    packages: tuple[Package, ...],
    build: Build,
    fallback: str,
) -> Entry:
    rows, dim, queries = shape
    return Entry(
        name=name,
        kind=Kind.OFFLINE,
        title=title,
        source=", ".join(map(str, packages)),
        licence=licence,
        rows=rows,
        dim=dim,
        metric=Metric.COSINE,
        queries=queries,
        cost=cost,
        fields=columns(strings=CLASS),
        filtered=True,
        operators=frozenset({"eq"}),
        query_fields=columns(strings=f"{CLASS} {DEFECT}", bools=ANOMALOUS),
        stand_in_for="mvtec-dino-384",
        packages=packages,
        build=build,
        fallback=fallback,
    )


ANOMALY = (
    _labelled(
        "texture-defects-1280",
        "EfficientNet-Lite0 features of textures, whole and with synthetic defects",
        licence="GPL-2+ and public domain (images, by class), Apache-2.0 (model)",
        shape=(
            textures.CLASSES * textures.STORED,
            efficientnet.HEAD_DIM,
            textures.CLASSES * (textures.GOOD_ONES + textures.FAULTY),
        ),
        cost=Cost(125, 14, 40),
        packages=(textures.SCIKIT_IMAGE, textures.OPENARENA, efficientnet.PACKAGE),
        build=textures.made,
        fallback="fashion-outliers-2048",
    ),
    _labelled(
        "fashion-outliers-2048",
        "EfficientNet-Lite0 features of Fashion-MNIST, other classes as anomalies",
        licence="MIT (images), Apache-2.0 (model)",
        shape=(1_330, efficientnet.DIM, 1_120),
        cost=Cost(48, 20, 3),
        packages=(images.FASHION, efficientnet.PACKAGE),
        build=images.fashion_outliers,
        fallback="clustered-2048-50k-cosine-filtered",
    ),
)
