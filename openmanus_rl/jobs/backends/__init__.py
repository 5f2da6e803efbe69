"""Where jobs run: as processes of this machine, or through SkyPilot."""
