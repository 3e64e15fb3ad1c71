"""REST: the control plane for people and programs, one router a noun."""
