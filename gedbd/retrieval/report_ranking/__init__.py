"""Ranks the reports of a tracker for a new one: what is compared of them, candidates, features, rankers."""
