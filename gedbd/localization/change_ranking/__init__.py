"""Ranking of changes for a report: which commits induced its bug."""
