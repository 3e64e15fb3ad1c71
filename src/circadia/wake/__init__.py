"""Wakes: inbox, requests, admission, schedules and pulses."""
