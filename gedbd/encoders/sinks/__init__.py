"""Destinations of vectors: files and servers."""
