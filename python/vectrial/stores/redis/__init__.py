"""Redis: vector sets, and its query engine."""
