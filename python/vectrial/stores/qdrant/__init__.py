"""Qdrant, and Qdrant Edge."""
