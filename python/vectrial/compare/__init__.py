"""Verdicts: what two runs, or two stores of a run, say of each other.

sides ─► what is compared      cells ─► what belongs side by side, or why nothing does
judge ─► verdicts              caveats ─► disturbances during the measurement
write, junit ─► table, JSON lines, Markdown, JUnit XML
"""
