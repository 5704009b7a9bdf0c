"""Data derived from a run: points, fronts, capacity, costs, warnings."""
