"""Logs and metrics: names and set-up."""
