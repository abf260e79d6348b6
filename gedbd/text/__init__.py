"""Text templates, cleaning and tokens."""
