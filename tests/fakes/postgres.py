"""A PostgreSQL of the tests' own: made in a folder that goes with it, on loopback, for one run."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

START_S = 60.0
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "80",
    "shared_buffers": "16MB",
    "listen_addresses": "127.0.0.1",
    "max_wal_size": "128MB",
}


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server that runs."""

    port: int
    process: subprocess.Popen[bytes]

    def url(self, database: str, *, port: int | None = None) -> str:
        return f"postgresql://llmgw:s3cret@127.0.0.1:{port or self.port}/{database}"

    def execute(self, statement: str, *, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def make_room(self, name: str, *, port: int | None = None) -> str:
        """The address of an empty schema: a database of its own would cost seconds."""
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url('postgres', port=port)}?options=-csearch_path%3D{name}"

    def signal(self, number: signal.Signals) -> None:
        """To every process of the server, children first when it is to stand still."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in (*map(int, children.split()), self.process.pid):
            os.kill(pid, number)


def programs():
    """The folder of PostgreSQL's programs, the newest of those installed, or nothing."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def as_whom():
    """Words that start a program as somebody who is not root, and end it with this process."""
    words = ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        words += ["--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]
    return words


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_cluster(bin_dir, folder):
    """Its files, with one user who must show a password."""
    secret = folder / "password"
    secret.write_text("s3cret\n")
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, secret):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    made = subprocess.run(
        [
            *as_whom(),
            bin_dir / "initdb",
            *("--pgdata", folder / "data"),
            *("--username", "llmgw", "--pwfile", secret, "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr


def start(bin_dir, folder):
    """A server on a free port, once it answers."""
    port = free_port()
    options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *as_whom(),
                bin_dir / "postgres",
                *("-D", folder / "data", "-p", str(port)),
                *("-c", f"unix_socket_directories={folder}"),
                *options,
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    postgres = Postgres(port=port, process=process)
    until = time.monotonic() + START_S
    while True:
        try:
            postgres.execute("SELECT 1")
        except psycopg.OperationalError:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)
        else:
            return postgres


@pytest.fixture(scope="session")
def postgres():
    """A server for all tests of this process."""
    bin_dir = programs()
    if bin_dir is None:
        pytest.skip("no PostgreSQL is installed here (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="llmgw-pg-"))
    folder.chmod(0o755)
    make_cluster(bin_dir, folder)
    running = start(bin_dir, folder)
    try:
        yield running
    finally:
        running.process.send_signal(signal.SIGQUIT)
        running.process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
