"""Relaying an admitted model call to its upstream, and recording it."""
