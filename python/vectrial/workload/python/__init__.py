"""Requests issued by Python: embedded calls and SDKs."""
