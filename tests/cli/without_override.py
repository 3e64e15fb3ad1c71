"""`circadia`, in an interpreter of its own that modes of files bind even where it is root."""

import ctypes
import os
import sys

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1

if __name__ == "__main__":
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)  # in force once another program runs
    os.execv(sys.executable, [sys.executable, "-m", "circadia", *sys.argv[1:]])
