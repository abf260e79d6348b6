"""Clients of trackers' REST APIs: they fetch issues as pages of JSON, which the readers parse."""
