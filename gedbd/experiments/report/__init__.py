"""Pages with tables and figures: of one run, of many, and of a comparison."""
