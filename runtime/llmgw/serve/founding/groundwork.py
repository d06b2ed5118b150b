"""The first steps of founding: the user, the folders, and the command that units start."""

from __future__ import annotations

from llmgw.rpc import keyfiles
from llmgw.serve.founding.ground import Ground, Step, ok
from llmgw.serve.founding.places import USER


def user(ground: Ground) -> Step:
    """A system user who owns the state and cannot log in."""
    if ground.machine.has_user(USER):
        return ok(f"{USER} is there")
    home = ground.places.state
    return ground.do(lambda: ground.machine.add_user(USER, home=home), f"system user {USER}")


def folders(ground: Ground) -> Step:
    """Settings for everybody to read, secrets and state for the user alone."""
    places = ground.places
    wanted = (
        (places.etc, "root", "root", 0o755),
        (places.secrets, "root", USER, 0o750),
        (places.state, USER, USER, 0o750),
    )
    wrong = [
        (path, owner, group, mode)
        for path, owner, group, mode in wanted
        if not path.is_dir() or ground.machine.owner_of(path) != (owner, group)
    ]
    if not wrong:
        return ok()

    def make() -> None:
        for path, owner, group, mode in wrong:
            keyfiles.make_directory(path, mode=mode)
            ground.machine.give(path, owner=owner, group=group, mode=mode)

    return ground.do(make, ", ".join(str(path) for path, *_ in wrong))


def program(ground: Ground) -> Step:
    """The command at the place that units name."""
    place = ground.places.program
    if place.exists():
        return ok(str(place))

    def link() -> None:
        place.unlink(missing_ok=True)  # a link that leads nowhere any more
        place.symlink_to(ground.program.resolve())

    return ground.do(link, f"{place} leads to {ground.program.resolve()}")
