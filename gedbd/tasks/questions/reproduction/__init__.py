"""Reproduces the retrieval table of the paper on duplicate questions, next to the published numbers.

``published`` reads the paper's numbers, ``table4`` compares runs with them and writes the files, ``callback`` does so
at the end of a sweep.
"""
