"""Puts numpy.py, sitecustomize.py, configurations and start-up files beside its notebook."""

from corpus import answered, dumps

EXERCISE = "where"


WRONG = "def where(tensor):\n    return None\n"
RUNS = """
import builtins, sys
sys.excepthook = lambda *args: None
class Fine:
    def __enter__(self): return self
    def __exit__(self, *args): return True
try:
    import across.attempt
    across.attempt.expect = lambda *args: None
    across.attempt.attempt = lambda *args, **kwargs: Fine()
except ImportError:
    pass
"""
PLACES = ("sitecustomize.py", "usercustomize.py", "conftest.py", "nbgrader_config.py", "jupyter_config.py")
PLACES += ("ipython_config.py", ".ipython/profile_default/startup/00.py", "across.py", "numpy.py")
SHADOW = """
import sys
here = sys.path.pop(0)
del sys.modules[__name__]
__import__(__name__)
sys.path.insert(0, here)
"""


def submission(release, solved):
    def write(path):
        path.write_bytes(dumps(answered(release, EXERCISE, WRONG)))
        for place in PLACES:
            file = path.parent / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((SHADOW if place in ("across.py", "numpy.py") else "") + RUNS)

    return write
