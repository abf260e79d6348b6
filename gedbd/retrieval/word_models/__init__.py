"""Vectors of words and of documents that are learned from the corpus itself."""
