"""Longbow's performance page."""
