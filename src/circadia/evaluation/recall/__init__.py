"""Recall from recorded conversations in LoCoMo's format."""
