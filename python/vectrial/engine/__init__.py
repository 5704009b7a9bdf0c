"""The Python face of the native engine."""
