"""Bytes on disk as the collection grows."""
