"""Labelled pairs of documents, and the batches that training draws from them."""
