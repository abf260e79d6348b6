"""Training tasks: each assembles its data and model from the shared folders."""
