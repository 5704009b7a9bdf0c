"""Verdicts: what two runs, or two stores of a run, say of each other.

sides ─► what is compared      cells ─► what belongs side by side, or why nothing does
judge ─► verdicts              caveats ─► what was amiss while it was measured
write, junit ─► table, JSON lines, Markdown, JUnit XML
"""
