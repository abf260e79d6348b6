"""Modules: tensors in, tensors out."""
