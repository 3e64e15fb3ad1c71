"""What differs between the providers' APIs: one file per endpoint, pure functions over bytes."""
