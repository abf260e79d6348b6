"""Finds duplicates of one new report among all stored ones, with a calibrated probability."""
