"""Sources of the datasets: one file per kind."""
