"""Thresholds, metrics and figures: functions of scores and labels, with no model inside."""
