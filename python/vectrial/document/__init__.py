"""Documents: sections of tables, figures and text, and what they are written as."""
