"""Student's t distribution by SciPy's special functions: to import `scipy.stats` takes a second."""

from __future__ import annotations


def quantile(probability: float, df: float) -> float:
    """Quantile of Student's t for this probability, with `df` degrees of freedom."""
    from scipy import special  # every command imports this file, and few need it

    return float(special.stdtrit(df, probability))


def probability_below(value: float, df: float) -> float:
    """Probability that Student's t is below this value, with `df` degrees of freedom."""
    from scipy import special  # every command imports this file, and few need it

    return float(special.stdtr(df, value))
