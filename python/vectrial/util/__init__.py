"""Paths, locks, processes, downloads, text: what knows nothing of vectors."""
