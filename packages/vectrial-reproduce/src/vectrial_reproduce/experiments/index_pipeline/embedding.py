"""The stage that comes first where vectors are made of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.progress import Progress

#: Components differ by no more where a text is embedded again on another machine, or in another
#: batch.
_TOLERANCE = 1e-3


def text_embedder(dataset: Dataset, column: str, progress: Progress) -> Callable[[int, int], int]:
    """A function that embeds the texts of rows [start, stop) anew with MiniLM; it returns their
    UTF-8 bytes.

    Raises:
        SourceUnavailable: the model is not available.
        UserError: the extra `data` is not installed; when called, the dataset's vectors are not
            those of its texts.
    """
    # A measuring process in a store's own environment has no libraries for datasets.
    from vectrial.datasets.sources import minilm

    encode = minilm.encoder(progress)
    assert dataset.metadata is not None
    texts = dataset.metadata.column(column)

    def embed(start: int, stop: int) -> int:
        own: Any = texts.slice(start, stop - start)
        vectors = encode([text or "" for text in own.to_pylist()])
        expected = dataset.vectors[start:stop]
        if vectors.shape != expected.shape or np.abs(vectors - expected).max() > _TOLERANCE:
            raise UserError(
                f"the vectors of {dataset.name} are not MiniLM's of its column '{column}'",
                where="embed",
                remedy="leave embed out, or choose a dataset of the model's, such as"
                ' wordnet-minilm-384 with embed = "gloss"',
            )
        return int(pc.sum(pc.binary_length(own)).as_py() or 0)

    return embed
