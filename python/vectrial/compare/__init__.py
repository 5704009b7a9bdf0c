"""Verdicts: what two runs, or two stores of a run, say of each other.

sides ─► what is compared      cells ─► what belongs side by side, or why nothing does
judge ─► verdicts              build ─► the whole, with disturbances during the measurement
document, formats ─► tables and Markdown, JSON lines and JUnit XML
"""
