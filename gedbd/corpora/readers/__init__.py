"""Readers of the files that a corpus comes from: one module for each kind."""
