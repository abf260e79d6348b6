"""Backends that run encoders over many texts."""
