"""Composition root: builds the parts, starts and stops the server."""
