"""Command lines, checked configurations, saved configurations, and error messages."""
