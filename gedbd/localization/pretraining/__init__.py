"""Pre-training of an encoder of code: a masked language model and the edges of semantic flow graphs."""
