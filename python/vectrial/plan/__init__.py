"""The plan of a suite: jobs of trials."""
