"""Writing a stored answer in a provider's own shape, and reading one back."""
