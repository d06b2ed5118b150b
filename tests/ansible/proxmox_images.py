"""The images of the Proxmox double: disks that come over the web or from a caller, to be imported.

fakepve takes such files for opaque ones; here each knows its sum and the size of the disk inside.
"""

from __future__ import annotations

import email
import hashlib
import re
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from fakepve import TaskError
from fakepve.routing import die, param_error, split_list
from fakepve.server import USER, params

IMPORT_NAMES = re.compile(r"[^/]+\.(ova|qcow2|raw|vmdk)")
UPLOADED_DISK_BYTES = 3584 * 1024**2
"""What the disk in any uploaded file has; the double does not look inside."""


@dataclass(frozen=True, slots=True)
class Image:
    """A file on the web, or one inside a storage: its content, and the disk that it holds."""

    content: bytes
    disk_bytes: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class ImagesApi:
    """Mixin of the double: what happens to files of the content type ``import``."""

    web_files: dict[str, Image]

    def keep_image(self, storage: str, name: str, image: Image) -> None:
        self.store_file(storage, name, len(image.content), "import")
        self.storages[storage]["volumes"][f"import/{name}"]["disk_bytes"] = image.disk_bytes

    async def _content_info(self, v, user):
        info = await super()._content_info(v, user)
        sid, name, *_rest = self._volume_target(v)
        disk_bytes = self._volumes(sid)[name].get("disk_bytes")
        return info if disk_bytes is None else {**info, "size": disk_bytes}

    async def _download_url(self, request: web.Request) -> web.Response:
        storage, store = self._file_storage(request, "download")
        node, user = request.match_info["node"], request[USER]
        match = self.resolve(request, "/api2/json")
        values = self._verify(request, await params(request))
        self.check_permissions(user, match.methods["POST"]["permissions"], values)
        self._check_image(storage, store, values)

        async def body():
            image = self.web_files.get(values["url"])
            if image is None:
                raise TaskError("download failed: 404 Not Found")
            if values.get("checksum") not in {None, image.sha256}:
                raise TaskError(
                    f"checksum mismatch: got '{image.sha256}' != expect '{values['checksum']}'"
                )
            if f"import/{values['filename']}" in self._volumes(storage):
                if values.get("checksum"):
                    return "OK, got correct file already, no need to download"
                raise TaskError(f"refusing to override existing file '{values['filename']}'")
            return self.keep_image(storage, values["filename"], image)

        upid = await self.task(node, "download", values["filename"], user, body)
        return web.json_response({"data": upid})

    async def _upload(self, request: web.Request) -> web.Response:
        fields = await form_of(request)
        if fields.get("content") != b"import":
            return await super()._upload(request)
        storage, store = self._file_storage(request, "upload")
        user = request[USER]
        self.require(user, f"/storage/{storage}", "Datastore.AllocateTemplate")
        name = fields["filename"].decode()
        self._check_image(storage, store, {"content": "import", "filename": name})
        image = Image(fields["data"], UPLOADED_DISK_BYTES)

        async def body():
            self.keep_image(storage, name, image)

        upid = await self.task(request.match_info["node"], "imgcopy", "", user, body)
        return web.json_response({"data": upid})

    @staticmethod
    def _check_image(storage: str, store: dict[str, Any], values: dict[str, Any]) -> None:
        content, name = values["content"], values["filename"]
        if content not in split_list(store.get("content")):
            raise die(f"storage '{storage}' is not configured for content-type '{content}'")
        if content == "import" and not IMPORT_NAMES.fullmatch(name):
            raise param_error(filename="wrong file extension")


async def form_of(request: web.Request) -> dict[str, bytes]:
    """The fields of an upload; the file is ``data`` and its name ``filename``."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    fields: dict[str, bytes] = {}
    for part in email.message_from_bytes(head + await request.read()).get_payload():
        content = part.get_payload(decode=True)
        if part.get_filename():
            fields |= {"filename": part.get_filename().encode(), "data": content}
        else:
            name = part.get_param("name", header="content-disposition")
            fields[name] = content.strip()
    return fields
