"""The only door to SkyPilot, which finds, starts and removes machines: its SDK, and what tasks for it are made of."""
