"""The graph over all reports: title vectors, edge rules, and the exact dense operator."""
