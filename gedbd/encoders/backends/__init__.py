"""Backends: what runs an encoder over many texts."""
