"""The graph over all reports: title vectors, sparse edge rules, and the exact dense operator."""
