"""LanceDB."""
