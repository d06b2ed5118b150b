#!/usr/bin/env bash
# Plays a scenario on booted hosts:  molecule/shared/run.sh roles_default
# Needs podman, runc, netavark and mmdebstrap, and a controller's programs on the path.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CONTAINERS_CONF=$PWD/molecule/shared/containers.conf
network=llmgw-molecule subnet=10.89.70.0/24

molecule/shared/make-image.sh bookworm
# The bridge's own route wins while it is there; without it, packets to a host that is gone would
# leave this machine by its default route.
ip route replace unreachable $subnet metric 4096
podman network exists $network || podman network create --subnet $subnet $network >/dev/null
trap 'podman network rm --force $network >/dev/null; ip route del unreachable $subnet metric 4096' EXIT
for scenario in "$@"; do
    molecule --base-config molecule/shared/base.yml test --scenario-name "$scenario"
done
