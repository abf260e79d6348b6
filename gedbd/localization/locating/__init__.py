"""Suspect commits of a repository for a report."""
