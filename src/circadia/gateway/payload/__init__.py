"""Reading and editing request and response bodies without decoding more than needed."""
