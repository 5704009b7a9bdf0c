"""Committed results, measured again: `python -m vectrial.reports.results`, or `make results`."""
