"""Checks of a store, for whoever writes one. They need the extra `testing`, which is pytest."""
