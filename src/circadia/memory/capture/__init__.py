"""Capturing turns as episodes: attribution, redaction, importance."""
