"""A small real training run: an agent that learns to fetch things in text houses, recorded through the public API."""
