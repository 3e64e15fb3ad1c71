"""Embedders: the protocol, the bundled default, endpoints, local encoders, fastembed; vectors made behind writes."""
