"""Measure whether sleep-time compute pays: anticipated answers, learned context, and memory of long conversations."""
