"""Recall on recorded conversations in LoCoMo's format."""
