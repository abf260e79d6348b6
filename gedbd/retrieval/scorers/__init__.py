"""Scorers of queries against documents: lexical, dense, by fields, and REP."""
