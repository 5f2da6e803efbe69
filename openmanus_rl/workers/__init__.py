"""Workers: claim rollouts from the queue, provision their environments, run agents, verify, and tear down."""
