"""Embedders: protocol, bundled default, endpoints, models in this process, and the background embedding of rows."""
