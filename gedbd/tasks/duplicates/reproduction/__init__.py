"""Reproduces tables and figures of the graph-enhanced transformer's paper, next to the published numbers.

``published`` reads the paper's numbers, ``paper_tables`` and ``paper_figures`` compare runs with them,
``sensitivity_table`` shows options that were varied one at a time, ``callback`` and ``writing`` write the files at the
end of a sweep.
"""
