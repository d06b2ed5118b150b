#!/usr/bin/env bash
# Makes the image of a test host: a small Debian that boots systemd and sshd, with the Python that
# Ansible needs and nothing that llmgw must bring itself (no venv module, no pip).
# Package mirrors and keys are those of this machine's own apt, so no registry of images is asked.
# Does nothing when the image was made by this very recipe.
#
#   molecule/shared/make-image.sh [SUITE]        -> localhost/llmgw-testhost:SUITE
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CONTAINERS_CONF="$here/containers.conf"
suite=${1:-bookworm}
image=localhost/llmgw-testhost:$suite
recipe=$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)

made_by=$(podman image inspect --format '{{ index .Labels "recipe" }}' "$image" 2>/dev/null || true)
[ "$made_by" = "$recipe" ] && exit 0

packages=systemd,systemd-sysv,dbus,openssh-server,sudo,iproute2,procps,ca-certificates
packages+=,python3,python3-apt,libgomp1,libstdc++6

# Without host keys sshd fails and the system boots as "degraded"; each host makes its own.
read -r -d '' host_keys <<'UNIT' || true
[Unit]
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A
[Install]
RequiredBy=ssh.service
UNIT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$host_keys" >"$work/ssh-hostkeys.service"
printf 'ops ALL=(ALL) NOPASSWD: ALL\n' >"$work/ops"

hooks=()
for certificate in /usr/local/share/ca-certificates/*.crt; do
    [ -e "$certificate" ] || continue
    hooks+=(--customize-hook="copy-in $certificate /usr/local/share/ca-certificates")
done
hooks+=(
    --customize-hook='chroot "$1" update-ca-certificates >/dev/null 2>&1'
    --customize-hook="copy-in $work/ssh-hostkeys.service /etc/systemd/system"
    --customize-hook='rm -f "$1"/etc/ssh/ssh_host_*'
    --customize-hook='chroot "$1" systemctl enable --quiet ssh-hostkeys.service'
    --customize-hook='chroot "$1" useradd --create-home --shell /bin/bash ops'
    --customize-hook="copy-in $work/ops /etc/sudoers.d"
    --customize-hook='chmod 0440 "$1/etc/sudoers.d/ops"'
    --customize-hook=': >"$1/etc/machine-id"'
    # A container loads no kernel modules; the next Debian would boot as "degraded" over it.
    --customize-hook='ln -sf /dev/null "$1/etc/systemd/system/systemd-modules-load.service"'
)

echo "making $image" >&2
mmdebstrap --quiet --variant=minbase --include="$packages" \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    "${hooks[@]}" "$suite" - |
    podman import --quiet --change 'CMD ["/lib/systemd/systemd"]' \
        --change 'STOPSIGNAL SIGRTMIN+3' --change 'ENV container=podman' \
        --change "LABEL recipe=$recipe" - "$image" >/dev/null
