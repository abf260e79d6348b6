"""Measures suggestions on a tracker's history."""
