"""Readers: one module for each kind of file a corpus comes from."""
