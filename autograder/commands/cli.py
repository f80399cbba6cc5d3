"""The command `autograder` begins here. Where something is kept warm for it, that does the work; else the verbs do.

This module and what it imports are light: a resubmission that is marked in a second has no time for more.
"""

from __future__ import annotations

import sys

from across._process import bytecode
from autograder.commands import warm_client


def main() -> None:
    """Run the command; an author's or a user's fault is one line and exit code 2, this machine's exit code 1.

    Ctrl-C and SIGTERM end all that was started; what was graded is kept (exit codes 130 and 143).
    """
    bytecode.keep()
    minutes = warm_client.asked(sys.argv[1:])
    if minutes is not None and (code := warm_client.run(sys.argv, minutes)) is not None:
        sys.exit(code)
    from autograder.commands import verbs

    verbs.run()
