"""Experiment trackers: what a training or a baseline leaves on Weights & Biases."""
