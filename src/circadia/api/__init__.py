"""REST, the control plane for people and programs, with one router per noun."""
