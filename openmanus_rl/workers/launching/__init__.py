"""Workers on other machines, through SkyPilot: clouds, Kubernetes, Slurm."""
