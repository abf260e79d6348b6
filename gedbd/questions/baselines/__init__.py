"""Baselines that other papers proposed for duplicate questions."""
