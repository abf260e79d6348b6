"""Measures suggestions on a tracker's own history."""
