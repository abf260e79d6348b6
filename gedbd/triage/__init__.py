"""Matches one new report against all stored ones, and says how sure that is."""
