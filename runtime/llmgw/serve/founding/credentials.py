"""The authority of the site and the certificate of its control plane, as steps of founding.

An authority is never overwritten. Where it is kept on another machine, only what it signed is used.
"""

from __future__ import annotations

from llmgw.errors import Unknown
from llmgw.rpc import authority, enrolment, keyfiles
from llmgw.rpc.enrolment import Application, Files, Wanted
from llmgw.serve.founding.ground import Ground, Step, ok
from llmgw.serve.founding.places import USER


def root(ground: Ground) -> Step:
    """The authority, and its certificate where everybody can read it."""
    places, now = ground.places, ground.clock.wall()
    own = places.authority / authority.CA_CERT
    if places.ca.exists():
        return ok(f"in {places.authority}" if own.exists() else "is on another machine")

    def make() -> None:
        if not own.exists():
            authority.init_ca(places.authority, now=now)
        keyfiles.write(places.ca, own.read_bytes(), mode=0o644)

    detail = f"in {places.authority}; keep one copy of {authority.CA_KEY}, off this machine"
    return ground.do(make, detail)


def certificate(ground: Ground) -> Step:
    """A certificate for every name and address of this machine, and those it had before."""
    places, now = ground.places, ground.clock.wall()
    files = Files(ca=places.ca, cert=places.cert, key=places.key)
    wanted = Wanted(name=ground.hosts[0], usage="server", files=files, hosts=ground.hosts)
    applied = enrolment.apply(wanted, now=now, is_trial=ground.is_trial)
    has_strange_key = places.key.exists() and ground.machine.owner_of(places.key)[0] != USER
    if has_strange_key and not ground.is_trial:
        ground.machine.give(places.key, owner=USER, group=USER, mode=0o400)
    if applied.standing.is_good:
        return ok("of another authority, left as it is" if applied.standing.is_foreign else "")
    detail = f"for {', '.join(applied.standing.hosts)}"
    return ground.do(lambda: _sign(ground, wanted, applied), detail)


def _sign(ground: Ground, wanted: Wanted, applied: Application) -> None:
    if not (ground.places.authority / authority.CA_KEY).exists():
        raise Unknown(
            "the authority is on another machine: ask it by 'llmgw ctl cert request' here and "
            f"'llmgw ctl cert sign' there, and put the certificate into {wanted.files.cert}"
        )
    order = authority.Order(
        name=wanted.name, usage="server", hosts=wanted.hosts, days=authority.LEAF_DAYS
    )
    signed = authority.sign(
        ground.places.authority,
        csr=(applied.csr_pem or "").encode(),
        order=order,
        now=ground.clock.wall(),
    )
    keyfiles.write(wanted.files.cert, signed.certificate_pem.encode(), mode=0o644)
