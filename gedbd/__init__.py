"""gedbd: duplicate bug reports found by a text encoder trained together with a graph over all reports."""

__version__ = "0.1.0"
