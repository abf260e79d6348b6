"""Training tasks. A task imports the other folders, never another task."""
