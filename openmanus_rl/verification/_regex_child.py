"""Matches one regular expression, in a process that can be ended: `re` itself cannot be interrupted.

Reads {pattern, flags, full, text, seconds} as JSON from standard input, and prints 1 or 0. It runs alone, without the
package.
"""

import json
import re
import signal
import sys


def _match() -> bool:
    request = json.loads(sys.stdin.buffer.read())
    # Whoever started it normally ends it earlier; this is for when they are gone.
    signal.alarm(int(request["seconds"]) + 2)
    pattern = re.compile(request["pattern"], request["flags"])
    match = pattern.fullmatch if request["full"] else pattern.search
    return match(request["text"]) is not None


if __name__ == "__main__":
    print(int(_match()))
