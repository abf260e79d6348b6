"""Probes of code encoders: what their vectors tell about variables, the flow of data, and what methods do."""
