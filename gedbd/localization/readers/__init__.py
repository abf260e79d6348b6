"""Readers of corpora for localization."""
