"""Commands keep the bytecode of what they import, also where the machine says that none is to be written."""

import os
import subprocess
import sys


def test_a_command_keeps_bytecode_whatever_the_environment_says(tmp_path):
    (tmp_path / "imported.py").write_text("x = 1\n")
    program = "from across._process import bytecode; bytecode.keep(); import subprocess, sys, imported\n"
    program += "subprocess.run([sys.executable, '-c', 'import other'], check=True)\n"
    (tmp_path / "other.py").write_text("x = 1\n")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60, cwd=tmp_path)
    kept = {path.name.split(".")[0] for path in (tmp_path / "__pycache__").iterdir()}
    assert kept == {"imported", "other"}
