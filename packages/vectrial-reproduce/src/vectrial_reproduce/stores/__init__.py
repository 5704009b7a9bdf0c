"""Stores of the reports: DocArray and AnnLite, the Flight protocol with Longbow, cuVS."""
