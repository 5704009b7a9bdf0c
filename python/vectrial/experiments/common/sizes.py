"""Sizes of a dataset that an experiment asks for, as suites write them."""

from __future__ import annotations

Size = int | float


def check_sizes(sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    """The sizes, each a share of the rows (a float of at most 1) or a whole number of rows.

    Raises:
        ValueError: one of them is neither.
    """
    if not sizes or min(sizes) <= 0:
        raise ValueError("expected fractions of the rows, or numbers of rows, above 0")
    if any(isinstance(size, float) and size > 1 for size in sizes):
        raise ValueError("a fraction is at most 1, a number of rows is whole")
    return sizes


def resolve_sizes(
    sizes: tuple[Size, ...], rows: int, *, least: int = 1, whole: bool = True
) -> list[int]:
    """Numbers of rows, ascending, without those below `least`. Sizes beyond `rows` are reduced to
    `rows`, which `whole` always includes."""
    found = {min(rows, round(s * rows) if isinstance(s, float) or s == 1 else s) for s in sizes}
    return [size for size in sorted(found | {rows} if whole else found) if size >= least]
