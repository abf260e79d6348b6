"""A report over run folders: tables and figures, as one self-contained HTML page and as Markdown.

``settings`` groups runs that differ only by seed, ``sections`` makes tables of them and ``charts`` figures, ``page``
writes the HTML page and the Markdown file.
"""
