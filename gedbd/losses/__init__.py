"""Losses: modules that take vectors and labels of a step, with no model inside."""
