"""Groups of open reports of an index that are probably the same."""
