"""``llmgw server init``: a control plane on this machine, from nothing or from half of one."""
