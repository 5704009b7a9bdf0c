"""Stores that speak Arrow Flight, and the reference server."""
