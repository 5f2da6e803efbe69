"""A Postgres that somebody else runs: checked, set up by an ordinary role, and served by a gateway on this machine."""
