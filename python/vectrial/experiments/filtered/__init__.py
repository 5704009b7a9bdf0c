"""Searching under filters: recall and speed against how many rows a filter keeps, and where."""
