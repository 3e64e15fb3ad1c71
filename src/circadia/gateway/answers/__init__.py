"""Ready answers at the gateway: lookup, serving, judging, drafting."""
