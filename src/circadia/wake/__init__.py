"""Wakes: inbox, requests, admission, schedules, pulses."""
