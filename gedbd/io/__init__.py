"""Files on disk: written whole or not at all, read with a clear message where they are damaged."""
