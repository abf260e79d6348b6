"""Vectors of tags: the network of tags that documents share, node2vec over it, and the encoder of documents' tags."""
