"""What is read of students' sources says nothing on the instructor's terminal: Python's warnings quote them."""

import subprocess
import sys

ODD = "\n".join(f"pattern_{number} = '\\\x1b'; one_{number} = 1 is 1" for number in range(3))
READ = """\
import sys
from across._process import global_names as names
for read in (names.uses, names.needs, names.binds, names.changes, names.imports, names.modules):
    read(sys.argv[1])
"""


def test_a_source_that_python_warns_of_is_read_in_silence():
    call = [sys.executable, "-W", "always", "-c", READ, ODD]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
