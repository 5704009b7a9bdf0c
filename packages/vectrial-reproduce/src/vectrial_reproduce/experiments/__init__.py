"""Experiments of the reports: anomalies among pictures, indexes through object storage."""
