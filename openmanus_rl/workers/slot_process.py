"""The process of a slot: works on one claimed rollout at a time, as its worker asks.

Messages are lines of JSON on a socket: {"claim": …, "folder": …} and {"stop": reason, "lease_id": …} from the worker;
{"phase": …} and {"done": status, "is_last": …} to it. When the socket is closed, the worker is gone: the attempt ends,
its environment is removed, and the rollout goes back to the queue when its lease expires.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from openmanus_rl.recorder.recording import Recording
from openmanus_rl.settings import load_settings
from openmanus_rl.workers.attempt import Attempt
from openmanus_rl.workers.claims import Claim
from openmanus_rl.workers.stopping import SIGNALS, Stopper
from openmanus_rl.workers.surroundings import Surroundings

# How long an attempt may take to stop after the worker is gone.
_GRACE_SECONDS = 60.0


def main() -> None:
    """Work until the worker closes the socket."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    os.umask(0o077)
    connection = socket.socket(fileno=int(sys.argv[1]))
    owner, cache = sys.argv[2], Path(sys.argv[3])
    stopper = Stopper()
    surroundings = Surroundings()
    recording = Recording(load_settings(), run_id=None)
    messages: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages, stopper), daemon=True).start()
    while (message := messages.get()) is not None:
        claim = Claim(message["claim"])
        stopper.begin(claim.lease_id)
        attempt = Attempt(
            claim,
            recording,
            stopper=stopper,
            owner=owner,
            folder=Path(message["folder"]),
            cache=cache,
            tell=lambda phase: _send(connection, phase=phase),
        )
        status = attempt.run()
        is_last = not surroundings.restore()
        # An agent may have closed the connection; without it, the end of this process says that the attempt is over.
        if not _send(connection, done=status, is_last=is_last) or is_last:
            break
    recording.close()


def _send(connection: socket.socket, **message: Any) -> bool:
    # Without a worker, `_listen` ends the attempt.
    with suppress(OSError):
        connection.sendall(orjson.dumps(message) + b"\n")
        return True
    return False


def _listen(connection: socket.socket, messages: queue.SimpleQueue[Mapping[str, Any] | None], stopper: Stopper) -> None:
    with connection.makefile("rb") as lines:
        try:
            for line in lines:
                message = orjson.loads(line)
                if "stop" in message:
                    stopper.stop(message["lease_id"], message["stop"])
                else:
                    messages.put(message)
        except (OSError, ValueError):
            pass
    messages.put(None)
    os.kill(os.getpid(), SIGNALS["returned"])
    time.sleep(_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
