"""Where programs of servers come from."""
