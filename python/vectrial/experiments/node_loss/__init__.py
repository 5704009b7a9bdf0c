"""Searches and writes while a node of a cluster is lost and comes back."""
