"""Stores an index: an SQLite file, and its content in memory."""
