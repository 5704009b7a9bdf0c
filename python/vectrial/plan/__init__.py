"""From a suite to jobs of trials."""
