"""A dataset with labelled queries, as pictures of goods would give it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT, GOOD
from vectrial.model.metric import Metric

CLASSES = ("brick", "it's wood", "Grün")
STORED, NORMAL, ANOMALIES, DIM = 60, 50, 20, 16


def pictures(seed: int = 1) -> Dataset:
    """Three classes around three directions; anomalies lie a little aside. Classes do not lie
    equally close: one threshold does not fit all."""
    rng = np.random.default_rng(seed)
    vectors, row_classes, queries, known = [], [], [], []
    for at, name in enumerate(CLASSES):
        centre = rng.standard_normal(DIM) * 3
        aside = rng.standard_normal(DIM) * (1.0 + at)
        wide = 0.3 + 0.5 * at
        vectors.append(centre + wide * rng.standard_normal((STORED, DIM)))
        row_classes += [name] * STORED
        queries.append(centre + wide * rng.standard_normal((NORMAL + ANOMALIES, DIM)))
        queries[-1][NORMAL:] += aside
        known += [(name, False, GOOD)] * NORMAL + [(name, True, "dent")] * ANOMALIES
    columns = zip((CLASS, ANOMALOUS, DEFECT), zip(*known, strict=True), strict=True)
    return Dataset(
        "pictures",
        Metric.COSINE,
        np.concatenate(vectors).astype(np.float32),
        np.arange(3 * STORED, dtype=np.int64) * 7,
        np.concatenate(queries).astype(np.float32),
        f"pictures {seed}",
        Provenance("made", "none", "none"),
        metadata=pa.table({CLASS: row_classes}),
        query_metadata=pa.table({name: list(values) for name, values in columns}),
    )
