"""A report written as HTML, Markdown, text for a terminal, or files."""
