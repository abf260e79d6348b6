"""A report over run folders: tables and figures, as one self-contained HTML page and as Markdown.

``settings`` groups runs that differ by seed alone, ``sections`` make tables and ``charts`` figures of them, ``page``
writes both forms.
"""
