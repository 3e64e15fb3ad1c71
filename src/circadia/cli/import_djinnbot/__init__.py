"""`circadia import djinnbot`: maps the configuration of DjinnBot agents to `circadia.yaml`, line by line."""
