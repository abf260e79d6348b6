"""Code with its semantic flow graph as the input of a Hugging Face encoder, and its pre-training."""
