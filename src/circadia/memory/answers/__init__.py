"""Answers to expected questions: when two questions ask for the same, and the lookup of a ready answer by that."""
