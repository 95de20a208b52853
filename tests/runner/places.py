"""Where things are, and how many run at a time."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AT_A_TIME, WAITING = 2, 4  # jobs that compute; beside them, those that mostly wait
JOB_SECONDS_MAX = 1800  # longer than any takes on a busy machine: what is ended then hangs
FAILED, SKIPPED = "build/failed", "tests/skipped"
ASAN, TSAN, FUZZ, POINTS = "build/address-undefined", "build/thread", "build/fuzz", "build/points"
NODE_ADDON = "bindings/node/sluice.node"
