"""Hints between processes."""
