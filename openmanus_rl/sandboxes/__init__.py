"""The environments of rollouts: specs, and the providers that start and remove them."""
