"""Finds the commits that may have induced the bug of a report."""
