"""Static pages of many runs: by question, store, dataset, version and run."""
