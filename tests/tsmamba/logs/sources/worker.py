"""Follows a log as a service would: state, outputs, checkpoint. Its test kills it again and again.

``python worker.py LOG CHECKPOINT OUTPUT`` ends, and tells the state, at the line ``END``.
"""

import hashlib
import os
import sys

from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.sources import FileSource


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(log, path, output):
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(out, b"\n")  # Ends what a kill may have left half written.
    with Checkpoint(path, model="worker") as checkpoint:
        source = FileSource(log, follow=True)
        state, text = b"", b""
        if (saved := checkpoint.load()) is not None:
            source.seek(saved[0])
            state = saved[1]["state"]
        # A kill before the first line must not make the next life start at a later file.
        checkpoint.commit(source.positions(), {"state": state})
        say("ready")
        while text != b"END":
            source.wait(1.0)
            lines = source.read(100)
            for *_, text in lines:
                state = hashlib.sha256(state + text).digest()
            rows = [b"%s:%d\t%s\t.\n" % (x.stream.encode(), x.offset, x.text) for x in lines]
            os.write(out, b"".join(rows))
            checkpoint.commit(source.positions(), {"state": state})
            for loss in source.losses():
                say(f"LOST {loss.message}")
        source.close()
    say(state.hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
