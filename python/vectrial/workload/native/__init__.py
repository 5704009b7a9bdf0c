"""Requests issued by the native engine."""
