"""Duplicate detection: text encoder, graph branch and fusion."""
