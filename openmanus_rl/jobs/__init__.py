"""Training jobs: launches of training runs, on this machine or through SkyPilot."""
