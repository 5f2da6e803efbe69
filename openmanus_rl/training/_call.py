"""Calls a function: `python _call.py package.module:function ARGUMENTS…`, run in the folder of the code."""

import importlib
import os
import sys

if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    module, _, function = sys.argv[1].partition(":")
    del sys.argv[0]
    sys.exit(getattr(importlib.import_module(module), function)())
