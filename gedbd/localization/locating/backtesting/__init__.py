"""Measures on a tracker's own history how often a fixed file and an inducing commit are among the first."""
