"""Student's t distribution by SciPy's special functions: to import `scipy.stats` takes a second."""

from __future__ import annotations


def quantile(probability: float, df: float) -> float:
    """The value below which that probability lies, with `df` degrees of freedom."""
    from scipy import special  # every command imports this file, and few need it

    return float(special.stdtrit(df, probability))


def below(value: float, df: float) -> float:
    """The probability of less than that value, with `df` degrees of freedom."""
    from scipy import special  # every command imports this file, and few need it

    return float(special.stdtr(df, value))
