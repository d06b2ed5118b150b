"""Stands in for the script by which ``ansible-test`` gets pip: takes the one that Python carries.

``ansible-test`` would fetch it from a site of its own; ``collection_sanity.sh`` puts this one into
its place. Its words are those of that script: what pip is to install.
"""

import subprocess
import sys

ITS_OWN = {"--no-setuptools", "--no-wheel"}

subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
wanted = [word for word in sys.argv[1:] if word not in ITS_OWN]
subprocess.check_call([sys.executable, "-m", "pip", "install", *wanted])
