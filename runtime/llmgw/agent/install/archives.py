"""Installs a build that is made of archives: fetch, compare, unpack, see it run, give it its place.

Until the last step everything lies in a folder that nobody trusts and that is removed however the
attempt ends.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

from llmgw.agent.install import downloads, verifying
from llmgw.agent.install.builds import Builds, Marker
from llmgw.agent.install.recipes import Build
from llmgw.agent.install.releases import Release
from llmgw.agent.install.tools import Tools
from llmgw.agent.install.unpacking import Unpacked

Say = Callable[[str], None]


def install(build: Build, release: Release, *, builds: Builds, tools: Tools, say: Say) -> None:
    """Bring the build to its place with its marker, or raise and leave nothing behind."""
    folder = builds.folder(build.engine, version=build.version, variant=build.variant)
    partial = builds.begin(folder)
    try:
        digests = _fill(partial, build, release, tools=tools, say=say)
        say("checking that the program runs")
        verified = verifying.verify(partial, build.program, tools=tools)
        marker = Marker(
            engine=build.engine,
            version=build.version,
            variant=build.variant,
            program=str(verified.program.relative_to(partial)),
            sha256=digests,
            installed=moment(tools.clock.wall()),
        )
        builds.finish(partial, marker)
        builds.publish(partial, folder)
    except OSError as error:
        raise downloads.on_disk(error, partial) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def moment(at: float) -> str:
    """A moment in UTC as a marker holds it; sorts by time."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _fill(
    partial: Path, build: Build, release: Release, *, tools: Tools, say: Say
) -> dict[str, str]:
    """Fetch and unpack every archive, one after the other; their digests."""
    unpacked, digests = Unpacked(partial), {}
    for asset in build.assets:
        archive = partial / f"{asset}.download"
        digests[asset] = downloads.fetch(release, asset, target=archive, clock=tools.clock, say=say)
        say(f"unpacking {asset}")
        unpacked.add(archive)
        archive.unlink()
    return digests
