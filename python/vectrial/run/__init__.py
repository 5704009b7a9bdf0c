"""The runner: servers up, jobs measured, results written."""
