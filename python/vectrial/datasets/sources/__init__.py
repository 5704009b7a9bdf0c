"""Sources of the catalogue's datasets: one file per kind."""
