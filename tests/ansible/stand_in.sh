#!/usr/bin/env bash
# Boots a container in the place of a VM that the Proxmox double has started, with what cloud-init
# would have made of it: hostname, address, account with sudo, keys. The double gives these in VM_*;
# STAND_IN_NETWORK, STAND_IN_IMAGE and STAND_IN_PREFIX say where the container goes.
# A container that is there is only started, as a VM would be.
set -euo pipefail

export CONTAINERS_CONF=${CONTAINERS_CONF:-$(dirname "${BASH_SOURCE[0]}")/../../molecule/shared/containers.conf}
host=${STAND_IN_PREFIX:-vm-}$VM_NAME

if podman container exists "$host"; then
    podman start "$host" >/dev/null
else
    podman run --detach --name "$host" --hostname "$VM_NAME" --systemd=always --privileged \
        --network "$STAND_IN_NETWORK" --ip "${VM_ADDRESS%/*}" "$STAND_IN_IMAGE" >/dev/null
fi
sleep 2 # systemd refuses its bus to whoever asks too early
podman exec "$host" systemctl is-system-running --wait >/dev/null || true
podman exec --interactive --env VM_USER --env VM_SSH_KEYS "$host" sh -eu <<'GUEST'
id "$VM_USER" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$VM_USER"
printf '%s ALL=(ALL) NOPASSWD: ALL\n' "$VM_USER" >"/etc/sudoers.d/90-$VM_USER"
chmod 0440 "/etc/sudoers.d/90-$VM_USER"
home=$(getent passwd "$VM_USER" | cut -d: -f6)
install -d -m 0700 -o "$VM_USER" "$home/.ssh"
printf '%s\n' "$VM_SSH_KEYS" >"$home/.ssh/authorized_keys"
chown "$VM_USER" "$home/.ssh/authorized_keys"
chmod 0600 "$home/.ssh/authorized_keys"
GUEST
