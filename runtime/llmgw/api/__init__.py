"""The admin API: what programs and ``ctl`` may ask a control plane, over HTTP."""
