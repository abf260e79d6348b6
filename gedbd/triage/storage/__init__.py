"""The index on disk and in memory."""
