"""An engine that does what its flags say; standard library only, so that it starts quickly.

Run as a program: ``python scripted_engine.py --listen 127.0.0.1:20000 --model sim``.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Do it in the order of the flags below."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pid-file", type=Path)
    parser.add_argument("--say", action="append", default=[])
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--terms-to-end", type=int, default=1)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--busy-children", type=int, default=0)
    parser.add_argument("--lone-busy-children", type=int, default=0)
    parser.add_argument("--lone-children", type=int, default=0, help="in sessions of their own")
    parser.add_argument("--wait-for", type=Path, help="listen once this file exists")
    parser.add_argument("--requests-in", type=Path, help="file with the count that it claims")
    parser.add_argument("--listen")
    parser.add_argument("--model", default="")
    parser.add_argument("--health", type=int, default=200)
    parser.add_argument("--exit", type=int)
    flags = parser.parse_args()
    _answer_to_term(flags)
    pids = [os.getpid(), *_children(flags)]
    if flags.pid_file is not None:
        fresh = flags.pid_file.with_suffix(".new")
        fresh.write_text(" ".join(map(str, pids)))
        fresh.rename(flags.pid_file)
    for line in flags.say:
        os.write(sys.stdout.fileno(), f"{line}\n".encode())
        os.write(sys.stderr.fileno(), f"{line} (stderr)\n".encode())
    while flags.wait_for is not None and not flags.wait_for.exists():
        time.sleep(0.02)
    if flags.exit is not None:
        sys.exit(flags.exit)
    if flags.listen:
        _serve(flags)
    while True:
        signal.pause()


def _answer_to_term(flags: argparse.Namespace) -> None:
    heard = 0

    def on_term(number: int, frame: object) -> None:
        nonlocal heard
        heard += 1
        os.write(sys.stdout.fileno(), f"TERM {heard}\n".encode())
        if heard >= flags.terms_to_end and not flags.ignore_term:
            os._exit(0)

    signal.signal(signal.SIGTERM, on_term)


def _children(flags: argparse.Namespace) -> list[int]:
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    together = [subprocess.Popen(sleep) for _ in range(flags.children)]
    apart = [subprocess.Popen(sleep, start_new_session=True) for _ in range(flags.lone_children)]
    burn = [sys.executable, "-S", "-c", "while True: pass"]
    busy = [subprocess.Popen(burn) for _ in range(flags.busy_children)]
    # Like a process that sets its title: neither session nor environment tell whose it is.
    alone = [
        subprocess.Popen(burn, start_new_session=True, env={})
        for _ in range(flags.lone_busy_children)
    ]
    return [child.pid for child in (*together, *apart, *busy, *alone)]


def _serve(flags: argparse.Namespace) -> None:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = flags.health if self.path == "/health" else 200
            body = json.dumps({"data": [{"id": flags.model}]}).encode()
            if self.path == "/metrics":
                count = flags.requests_in.read_text() if flags.requests_in else "0"
                body = f'scripted:requests{{model="x"}} {count}\n'.encode()
                body += b"scripted:tokens_total 7\n"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    host, _, port = flags.listen.rpartition(":")
    http.server.ThreadingHTTPServer((host, int(port)), Answers).serve_forever()


if __name__ == "__main__":
    main()
