"""`circadia import djinnbot`: what a DjinnBot agent's configuration is in `circadia.yaml`, told line by line."""
