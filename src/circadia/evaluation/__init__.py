"""Measures whether sleep-time compute pays: anticipated answers, learned context, and the memory of long talks."""
