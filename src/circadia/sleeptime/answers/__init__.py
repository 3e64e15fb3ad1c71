"""Ready answers at sleep time: what is expected, what is thrown out, and how often it was right."""
