"""Measures on a tracker's own history how often an inducing commit is among the first suspects."""
