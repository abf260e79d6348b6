"""Git histories as commits, files and hunks."""
