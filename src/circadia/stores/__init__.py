"""Databases and signals behind Protocols."""
