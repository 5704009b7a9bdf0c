"""The process that measures."""
