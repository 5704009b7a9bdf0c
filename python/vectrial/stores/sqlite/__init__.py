"""SQLite, by exact scan and with sqlite-vec."""
