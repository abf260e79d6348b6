"""Text and image encoders, their backends, cache and export."""
