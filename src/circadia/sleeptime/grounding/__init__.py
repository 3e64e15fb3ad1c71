"""Checks of proposed text against its sources: numbers, dates, names, quotations."""
