"""Suggestions measured on a tracker's own history."""
