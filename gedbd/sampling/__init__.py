"""Pairs for training and evaluation, and the batch samplers that draw from them."""
