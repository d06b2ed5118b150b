# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said of the options by which modules reach the admin API."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of ``_argspec.control``."""

    DOCUMENTATION = r"""
options:
  url:
    description:
      - Admin address of the control plane, as V(http://HOST:PORT), V(https://HOST:PORT) or
        V(unix:///PATH).
      - It listens on loopback of the control plane, so that the task runs on, or is delegated to,
        a control host.
      - If the option is not given, the variable E(LLMGW_CTL_URL) of the target is used.
    type: str
    default: http://127.0.0.1:9090
  token:
    description: Sent as a bearer token, where something in front of the admin address asks for one.
    type: str
  ca_path:
    description: Certificates in PEM form by which the admin address is believed.
    type: path
  client_cert:
    description: Certificate in PEM form that the task shows.
    type: path
  client_key:
    description: Key of O(client_cert).
    type: path
  request_timeout_s:
    description: The longest wait for one answer.
    type: float
    default: 10.0
notes:
  - Nothing beyond Python's standard library is needed where the task runs.
"""
