"""Programs of servers from package registries."""
