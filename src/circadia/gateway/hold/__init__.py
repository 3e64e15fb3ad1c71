"""What held calls need: places, spooled bodies, replies and keep-alives."""
