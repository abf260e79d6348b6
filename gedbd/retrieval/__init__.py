"""Ranking tasks, scorers, and the ranking of candidates."""
