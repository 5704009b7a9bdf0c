"""Searching by vector and text at once, at several weights: latency, agreement and quality."""
