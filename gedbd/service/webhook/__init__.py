"""GitHub's webhook: deliveries, their order, and the comments that go out."""
