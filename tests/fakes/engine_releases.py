"""Releases of engines as their sites serve them: archives made here, over loopback, and a machine.

The programs in them are small scripts that answer like the real ones.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LLAMA_SERVER = "#!/bin/sh\necho 'warning: no cards'\necho 'version: 10991 (abc1234)'\n"
REPO = "ggml-org/llama.cpp"


def member(
    name: str, *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = ""
) -> tarfile.TarInfo:
    """The head of one entry of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


def archive(*entries: tuple[tarfile.TarInfo, str]) -> bytes:
    """A ``.tar.gz`` of these entries and their contents, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for info, content in entries:
            data = content.encode()
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def llamacpp(version: str = "b10991", *, program: str = LLAMA_SERVER) -> bytes:
    """An archive laid out as llama.cpp's are: the program and a library behind two links."""
    top = f"llama-{version}"
    return archive(
        (member(f"{top}/", kind=tarfile.DIRTYPE, mode=0o777), ""),
        (member(f"{top}/llama-server", mode=0o4775), program),
        (member(f"{top}/libllama.so.0.0.1", mode=0o644), "library"),
        (member(f"{top}/libllama.so.0", kind=tarfile.SYMTYPE, link="libllama.so.0.0.1"), ""),
        (member(f"{top}/libllama.so", kind=tarfile.SYMTYPE, link="libllama.so.0"), ""),
    )


def cpu_asset(version: str = "b10991") -> str:
    """The name of llama.cpp's build for a processor."""
    return f"llama-{version}-bin-ubuntu-x64.tar.gz"


def wheel(name: str, version: str, module: str, *, script: str = "") -> tuple[str, bytes]:
    """A package of one module, with ``script`` as its command; file name and content."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {name}:main\n"
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archived:
        for file, content in files.items():
            archived.writestr(file, content)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


def sha256(content: bytes) -> str:
    """Its digest."""
    return hashlib.sha256(content).hexdigest()


def place(base: Path, engine: str, version: str, files: Mapping[str, bytes]) -> Path:
    """Lay a release out as bundles and mirrors hold it; the folder."""
    folder = base / "engines" / engine / version
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = "".join(f"{sha256(content)}  {name}\n" for name, content in files.items())
    (folder / "SHA256SUMS").write_text(sums)
    return folder


@dataclass
class Site:
    """A site that answers as the public one does; a test changes what it holds as it goes."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Contents by version and file name."""
    digests: dict[str, str | None] = field(default_factory=dict)
    """What is published instead of the true digest."""
    status: int = 200
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        if self.status != 200:
            return self.status, b"{}"
        match path.strip("/").split("/"):
            case ["repos", _, _, "releases", "tags", version] if version in self.files:
                return 200, json.dumps({"assets": self._assets(version)}).encode()
            case [_, _, "releases", "download", version, name]:
                content = self.files.get(version, {}).get(name)
                return (404, b"") if content is None else (200, content)
        return 404, b"{}"

    def _assets(self, version: str) -> list[dict[str, object]]:
        return [
            {
                "name": name,
                "size": len(content),
                "digest": self.digests.get(name, f"sha256:{sha256(content)}"),
            }
            for name, content in self.files[version].items()
        ]


@contextlib.contextmanager
def serving(answer: Callable[[str], tuple[int, bytes]]) -> Iterator[str]:
    """An HTTP server on loopback that answers GET by a function; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, content = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, args=(0.01,), name="release site", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def serve_folder(base: Path) -> Callable[[str], tuple[int, bytes]]:
    """Answers with the files of a folder, as a mirror does."""

    def answer(path: str) -> tuple[int, bytes]:
        file = base / path.strip("/")
        return (200, file.read_bytes()) if file.is_file() else (404, b"")

    return answer


class Programs:
    """A folder to be ``PATH``: the machine's own tools as scripts that note how they are called."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.environ = {"PATH": f"{folder}:/usr/bin:/bin"}

    def add(self, name: str, body: str) -> None:
        """A program that notes its arguments and then runs ``body``."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/calls\n{body}\n')
        path.chmod(0o755)

    def only(self) -> None:
        """Nothing but what was added is found, beside what scripts need."""
        for name in ("sh", "cat", "grep", "rm", "touch"):
            (self.folder / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
        self.environ = {"PATH": str(self.folder)}

    @property
    def calls(self) -> list[str]:
        """How they were called, in order."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []
