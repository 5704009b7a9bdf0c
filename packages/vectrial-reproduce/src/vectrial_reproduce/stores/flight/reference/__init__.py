"""The reference server of the Flight protocol."""
