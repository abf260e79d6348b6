"""Localization of the change that induced a bug: repositories, flow graphs, encoders of code, rankings of changes."""
