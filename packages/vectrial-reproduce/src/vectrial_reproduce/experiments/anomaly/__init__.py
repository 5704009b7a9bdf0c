"""Anomalies among the normal things of a class: found fast, and found at all."""
