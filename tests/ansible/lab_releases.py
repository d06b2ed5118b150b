"""A release site for the lab: it answers as GitHub does, and has one release of llama.cpp.

What the archive holds is the launcher of ``llmgw[local]``, which is llama.cpp's own server, or the
genuine ``llama-server`` that ``LLMGW_TEST_LLAMA_SERVER`` names, under the name and in the folders
that a release has; the real site is out of reach of a test. As a program it writes a folder as
mirrors and bundles have it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "b10991"
ASSET = f"llama-{VERSION}-bin-ubuntu-x64.tar.gz"
REPO = "ggml-org/llama.cpp"
LAUNCHER = b"""\
#!/bin/sh
# llama.cpp's server out of the package xllamacpp.
case "$1" in
    --version) echo "version: 10991 (of xllamacpp)"; exit 0 ;;
esac
exec /opt/llmgw/current/venv/bin/llmgw llama-server "$@"
"""


@dataclass
class ReleaseSite:
    """Its address, its files, and what it was asked for."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    """Digests that are published although they are not those of the files."""

    asked: list[str] = field(default_factory=list)

    def add(self, name: str, content: bytes) -> None:
        """One file of the release."""
        self.files[name] = content

    def answer(self, path: str) -> bytes | None:
        """What stands at a path of the site."""
        self.asked.append(path)
        if path == f"/repos/{REPO}/releases/tags/{VERSION}":
            digests = {name: hashlib.sha256(c).hexdigest() for name, c in self.files.items()}
            assets = [
                {"name": name, "digest": f"sha256:{digest}"}
                for name, digest in {**digests, **self.published}.items()
            ]
            return json.dumps({"tag_name": VERSION, "assets": assets}).encode()
        return self.files.get(path.removeprefix(f"/{REPO}/releases/download/{VERSION}/"))


def genuine_archive() -> bytes | None:
    """A release archive with the genuine program, where this machine has it."""
    named = os.environ.get("LLMGW_TEST_LLAMA_SERVER")
    return launcher_archive(Path(named).read_bytes()) if named else None


def launcher_archive(program: bytes = LAUNCHER) -> bytes:
    """A release archive with this program as its llama-server."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, mode in (
            ("build/bin/llama-server", program, 0o755),
            ("build/bin/LICENSE", b"MIT License\n", 0o644),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@contextlib.contextmanager
def serving(host: str) -> Iterator[ReleaseSite]:
    """The site, with the launcher as its release, at a free port of this address."""
    site = ReleaseSite()
    site.add(ASSET, launcher_archive())
    server = http.server.ThreadingHTTPServer((host, 0), functools.partial(_Handler, site))
    site.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="release-site", daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Write the folder of the release to where the only argument says."""
    folder = Path(sys.argv[1]) / "engines" / "llamacpp" / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    archive = launcher_archive()
    (folder / ASSET).write_bytes(archive)
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(archive).hexdigest()}  {ASSET}\n")


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, site: ReleaseSite, *args) -> None:
        self._site = site
        super().__init__(*args)

    def do_GET(self) -> None:
        content = self._site.answer(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *words) -> None:
        pass


if __name__ == "__main__":
    main()
