"""Passes over memory banks while nobody waits."""
