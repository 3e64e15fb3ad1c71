"""The providers' APIs: one file per endpoint, pure functions over bytes."""
