"""Splits into train, validation and test, pairs of reports, and the batch samplers that draw from them."""
