"""The command `autograder`: it begins here, and ends with an exit code and a line that says why."""

from __future__ import annotations

import atexit
import gc
import signal

from across._process import bytecode
from autograder.commands.application import app, end
from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, Interrupted


def main() -> None:
    """Run the command; an author's or a user's fault is one line and exit code 2, this machine's exit code 1.

    Ctrl-C and SIGTERM end all that was started; what was graded is kept (exit codes 130 and 143).
    """
    bytecode.keep()  # of what is imported from here on
    from across._process.warm import ServerError
    from autograder.commands import authors, defending, doctor, handing, instructors  # noqa: F401 -- these are verbs
    from autograder.job.forkserver import InfrastructureError
    from autograder.model.course import CourseError
    from autograder.sandbox.boxes import SandboxError
    from autograder.store import files

    atexit.register(gc.freeze)  # or Python looks through all modules once more as it ends: 0.2 s
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        app()
    except CourseError as error:
        end(AUTHOR, str(error))
    except ServerError as error:
        at = str(error).rfind("CourseError: ")
        end(AUTHOR if at >= 0 else INFRASTRUCTURE, str(error)[at + 13 :] if at >= 0 else str(error))
    except SandboxError as error:
        end(
            INFRASTRUCTURE,
            f"{error} (`across doctor` says more; only for submissions that you trust: --trust-submissions)",
        )
    except InfrastructureError as error:
        end(INFRASTRUCTURE, f"{error}")
    except OSError as error:
        end(INFRASTRUCTURE, files.says(error))
    except Interrupted as stop:
        end(128 + stop.args[0], "interrupted; what was graded is kept: run the same command again to go on")


def _interrupted(number: int, _: object) -> None:
    raise Interrupted(number)
