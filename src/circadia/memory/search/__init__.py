"""Searching a bank: index, vectors, terms, retrieval."""
