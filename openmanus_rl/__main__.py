"""`python -m openmanus_rl` is the command `openmanus-rl`."""

from openmanus_rl.cli import main

if __name__ == "__main__":
    main()
