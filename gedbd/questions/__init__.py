"""Duplicate questions: retrieval with tags, in communities and trackers."""
