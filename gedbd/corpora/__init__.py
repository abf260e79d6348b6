"""Corpora: documents, relevance, splits and statistics; readers and clients of bug trackers."""
