#!/usr/bin/env python3
"""Upload DIR/<environment>/* (default data/) to the bucket `datasets`; `--help` tells the rest."""

from openmanus_rl.cli.datasets import main

if __name__ == "__main__":
    main()
