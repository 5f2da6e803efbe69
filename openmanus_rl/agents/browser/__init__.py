"""A browser that an agent operates: it reaches only its environment, and is recorded as a video."""
