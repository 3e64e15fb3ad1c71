"""Verifying proposed changes and publishing them in one transaction."""
