"""Composition root: what is built from what, and how it starts and stops."""
