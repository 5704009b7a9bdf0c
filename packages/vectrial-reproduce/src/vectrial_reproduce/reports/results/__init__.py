"""Committed results, measured again: `make results`."""
