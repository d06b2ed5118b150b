"""Models of several files, as repositories and mirrors have them."""

from __future__ import annotations

import hashlib
import json

from tests.fakes.http_files import Generated, Plain, Reply, serving
from tests.fakes.hub import Repository

PART = 300_000


def body(name, length=PART):
    return Generated(length, seed=name.encode())


def content(made):
    return b"".join(made.read(at, made.length) for at in range(0, made.length, 1 << 20))


CHECKPOINT = {
    "README.md": Plain(b"# a model"),
    ".gitattributes": Plain(b"*.safetensors filter=lfs"),
    "config.json": Plain(b'{"model_type": "llama"}'),
    "tokenizer.json": body("tokenizer"),
    "1_Pooling/config.json": Plain(b"{}"),
    "model.safetensors.index.json": Plain(
        json.dumps(
            {
                "weight_map": {
                    "a": "model-00001-of-00002.safetensors",
                    "b": "model-00002-of-00002.safetensors",
                }
            }
        ).encode()
    ),
    "model-00001-of-00002.safetensors": body("one"),
    "model-00002-of-00002.safetensors": body("two"),
    "original/consolidated.00.pth": body("original"),
}
LOADED = sorted(set(CHECKPOINT) - {"README.md", ".gitattributes", "original/consolidated.00.pth"})

SPLIT = {
    "small.gguf": body("small"),
    "BF16/big-00001-of-00003.gguf": body("b1"),
    "BF16/big-00002-of-00003.gguf": body("b2"),
    "BF16/big-00003-of-00003.gguf": body("b3"),
}


def silent(progress):
    pass


def hub_of(files, **knobs):
    return {"org/model": Repository(dict(files), **knobs)}


def mirror_of(files, *, manifest=True, lies=()):
    """The byte port of a mirror: ``/MODEL/VERSION/FILE`` and the manifest."""

    def answer(request):
        path = request.path.removeprefix("/llama/v1/")
        if path == "manifest.json" and manifest:
            listed = [
                {
                    "path": name,
                    "size": made.length,
                    "sha256": hashlib.sha256(content(made)).hexdigest()
                    if name not in lies
                    else "0" * 64,
                }
                for name, made in files.items()
            ]
            return Reply(body=Plain(json.dumps({"model": "llama", "files": listed}).encode()))
        if path in files:
            return Reply(headers={"ETag": f'"{path}"'}, body=files[path])
        return Reply(404)

    return serving(answer)


def names_in(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)
