"""Collections that change: rows inserted, deleted and replaced by a script, and searched."""
