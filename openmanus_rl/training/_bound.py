"""Runs a command that ends with the process that started it, by `kill -9` too. Run by its path, without the package.

Its arguments are the process id of the parent, and the command.
"""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        # Kept when the program is replaced below.
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # It died before the kernel knew that we ask.
    os.execv(sys.argv[2], sys.argv[2:])
