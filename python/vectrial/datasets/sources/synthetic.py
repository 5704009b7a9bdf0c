"""Seeded vectors of any size: nothing to fetch, and the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers import Block
from vectrial.datasets.sources import filter_sets
from vectrial.datasets.sources.material import Material, random_numbers
from vectrial.model.errors import UserError
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress

QUERIES = 1_000
#: Shares of the values of column `category`, skewed as real categories are.
CATEGORIES = {"a": 0.5, "b": 0.25, "c": 0.15, "d": 0.08, "e": 0.019, "f": 0.001}
#: Different made-up words, of eight letters each, and how many of them a text has.
_WORDS, _LONG = 5_000, 10
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwxyz", "aeiou"
_CLUSTER_ROWS, _SPREAD = 500, 0.35
_BLOCK_ROWS = 50_000
_NAME = re.compile(
    r"(?P<shape>uniform|clustered)-(?P<dim>\d{1,5})-(?P<rows>\d{1,9})(?P<unit>[km]?)"
    r"(-(?P<metric>l2|cosine|ip))?(-(?P<columns>meta|filtered|text))?"
)


@dataclass(frozen=True)
class SyntheticRecipe:
    """The parts of a synthetic dataset's name.

    shape: `uniform` in the unit cube (no structure, as hard as its dimension), or `clustered`:
        Gaussian clusters of about 500 rows around centres of a standard normal distribution.
    columns: none, `meta` (metadata), `filtered` (metadata and a filter per query), or `text` (one
        column of texts).
    """

    shape: str
    dim: int
    rows: int
    metric: Metric
    columns: str


Draw = Callable[[SyntheticRecipe, int, int], NDArray[np.float32]]


def parse(name: str) -> SyntheticRecipe | None:
    """The recipe in a name such as `clustered-64-50k-cosine-filtered`; None for other names.

    Raises:
        UserError: the numbers in the name cannot be used.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    rows = int(match["rows"]) * {"": 1, "k": 1_000, "m": 1_000_000}[match["unit"]]
    dim = int(match["dim"])
    if not 2 <= dim <= 16_384 or not 1 <= rows <= 1_000_000_000:
        raise UserError(
            f"{rows} rows of {dim} components cannot be made",
            where=name,
            remedy="2 to 16384 components, 1 to 1000m rows, as in 'clustered-64-50k'",
        )
    metric = Metric(match["metric"] or "l2")
    return SyntheticRecipe(match["shape"], dim, rows, metric, match["columns"] or "")


def make(recipe: SyntheticRecipe, progress: Progress) -> Material:
    """Vectors in blocks, 1,000 queries of the same distribution, and the requested columns."""
    metadata, filters = None, None
    if recipe.columns == "text":
        metadata = texts(recipe.rows)
    elif recipe.columns:
        table = columns(recipe.rows + QUERIES)
        metadata, of_queries = table.slice(0, recipe.rows), table.slice(recipe.rows)
        if recipe.columns == "filtered":
            filters, _ = filter_sets.per_query(
                metadata, of_queries, categories=("category",), numbers=("price",), seed=recipe.dim
            )
    draw = _draw_uniform if recipe.shape == "uniform" else _draw_clustered
    return Material(
        vectors=_blocks(recipe, draw, metadata, progress),
        queries=draw(recipe, QUERIES, _seed(recipe, 0)),
        filters=filters,
        notes=("the columns have nothing to do with the vectors",) if recipe.columns else (),
    )


def columns(rows: int) -> pa.Table:
    """Metadata: `random_number` (uniform), `category` (skewed), `price` (log-normal)."""
    random = np.random.RandomState(rows % 2**31)
    category = random.choice(list(CATEGORIES), rows, p=list(CATEGORIES.values()))
    return pa.table(
        {
            "random_number": pa.array(random_numbers(rows, 1)),
            "category": pa.array(category.tolist(), pa.string()),
            "price": pa.array(np.round(random.lognormal(3, 1, rows), 2)),
        }
    )


def texts(rows: int) -> pa.Table:
    """`text`: ten words, about 90 bytes, of 5,000 made-up ones with frequencies 1 / n (Zipf)."""
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    # Four syllables are the digits of a number below 100^4; the factor has none in common with it,
    # so that every word is another one.
    numbers = (np.arange(1, _WORDS + 1, dtype=np.int64) * 61_803_399) % 100**4
    made = ["".join(syllables[n // 100**at % 100] for at in range(4)) for n in numbers.tolist()]
    share = 1 / np.arange(1, _WORDS + 1)
    random = np.random.RandomState(rows % 2**31)
    drawn = random.choice(_WORDS, (rows, _LONG), p=share / share.sum())
    sentences = [" ".join([made[word] for word in row]) for row in drawn.tolist()]
    return pa.table({"text": pa.array(sentences, pa.string())})


def _seed(recipe: SyntheticRecipe, block: int) -> int:
    return (recipe.dim * 1_000_003 + block * 7_919 + len(recipe.shape)) % 2**32


def _blocks(
    recipe: SyntheticRecipe, draw: Draw, metadata: pa.Table | None, progress: Progress
) -> Iterator[Block]:
    for block, start in enumerate(range(0, recipe.rows, _BLOCK_ROWS), start=1):
        progress(start, recipe.rows, "drawing vectors")
        rows = min(_BLOCK_ROWS, recipe.rows - start)
        described = None if metadata is None else metadata.slice(start, rows)
        yield Block(draw(recipe, rows, _seed(recipe, block)), metadata=described)
    progress(recipe.rows, recipe.rows, "drawing vectors")


def _draw_uniform(recipe: SyntheticRecipe, rows: int, seed: int) -> NDArray[np.float32]:
    return np.random.RandomState(seed).random_sample((rows, recipe.dim)).astype(np.float32)


def _draw_clustered(recipe: SyntheticRecipe, rows: int, seed: int) -> NDArray[np.float32]:
    clusters = max(1, recipe.rows // _CLUSTER_ROWS)
    centres = np.random.RandomState(recipe.dim).standard_normal((clusters, recipe.dim))
    random = np.random.RandomState(seed)
    chosen = random.randint(0, clusters, rows)
    noise = random.standard_normal((rows, recipe.dim))
    return (centres[chosen] + _SPREAD * noise).astype(np.float32)
