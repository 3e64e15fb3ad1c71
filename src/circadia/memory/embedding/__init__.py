"""Embedders: the protocol, the bundled default, endpoints, fastembed; vectors that are made in the background."""
