"""Files of models: read as text, for the control plane to understand; and written as YAML."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import yaml

from llmgw.cli import plain
from llmgw.domain.catalog_views import CatalogView, EntryView, Origin
from llmgw.errors import AlreadyHeld, Invalid

MAX_BYTES = 4 * 1024 * 1024
_MODE = 0o600

option = click.option(
    "-f",
    "--file",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="YAML or JSON, written as `models` in the server's settings; - reads standard input.",
)


def read(file: Path) -> str:
    """What a file holds; ``Invalid`` where it cannot be read or is something else."""
    where = "standard input" if str(file) == "-" else str(file)
    try:
        if str(file) == "-":
            held = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with file.open("rb") as opened:
                held = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise Invalid(f"cannot read {where}: {error.strerror}; check the path after -f") from error
    if len(held) > MAX_BYTES:
        raise Invalid(f"{where} is larger than {MAX_BYTES} bytes; give a file of models")
    try:
        return held.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} is no text in UTF-8; give a file of models") from error


def write(file: Path, text: str) -> None:
    """Write a file that its owner alone may read; one that is there is left alone."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError as error:
        raise AlreadyHeld(f"{file} is there already; name another file") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)


def exported(catalog: CatalogView) -> str:
    """The whole catalog as a file that ``apply`` takes, with a word on where each comes from."""
    lines = ["# The catalog; 'llmgw ctl model apply -f FILE' takes it."]
    lines += [
        f"# The stored model {name} is left out of the catalog, and so here: {plain.one_line(why)}"
        for name, why in catalog.skipped.items()
    ]
    lines.append("models:" if catalog.entries else "models: []")
    return "\n".join(lines) + "\n" + "".join(map(_entry, catalog.entries))


def written(value: object) -> str:
    """A value as YAML; with letters as they are where YAML reads them so."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    if yaml.safe_load(text) != value:
        return yaml.safe_dump(value, sort_keys=False, width=100)
    return text


def _entry(entry: EntryView) -> str:
    where = "declared in the settings of the server"
    if entry.origin is Origin.STORED:
        where = f"stored, added by {plain.one_line(entry.actor or '-')}"
    return f"# {where}\n{written([dict(entry.definition)])}"
