"""Thresholds, metrics, significance and figures of scores and labels; comparison and reports of runs."""
