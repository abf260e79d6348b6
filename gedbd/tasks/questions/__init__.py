"""Duplicate questions with a tag network."""
