"""Where vectors are written to."""
