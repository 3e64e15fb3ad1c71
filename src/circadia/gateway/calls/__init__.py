"""One model call: its path, headers, body and upstream."""
