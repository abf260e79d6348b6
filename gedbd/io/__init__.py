"""Files on disk: written as a whole or not at all, and read with a clear message if they are damaged."""
