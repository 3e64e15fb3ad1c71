"""Generated worlds with known facts, and the scripted model that answers about them."""
