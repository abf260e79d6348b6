"""A report over run folders: tables and figures, as one self-contained HTML page and as Markdown.

``run_settings`` groups runs that differ only by seed, ``all_sections`` makes tables of them and ``charts`` figures,
``report_page`` writes the HTML page and the Markdown file.
"""
