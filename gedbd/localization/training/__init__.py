"""Bug localization: which changes induced the bug of a report."""
