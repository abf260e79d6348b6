"""GitHub's webhook: receives deliveries, updates the index, and posts comments."""
