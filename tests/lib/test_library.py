"""What `across` promises to programs of one's own: names, types, and five distributions to install."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import across

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "lib/pyproject.toml").read_text(encoding="utf-8"))["project"]

AT_WORK = """
import importlib.abc, sys

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
import across
from across import *
from across import devices

devices.simulate(2)
import tensorflow as tf

@tf.function
def halves(x):
    with tf.device("CPU:1"):
        y = x + x
    return y * 0.5

ran = placement.trace(halves, tf.ones([2]))
print(ran, ran.draw(), sep="\\n")
print(timeline.record(halves, tf.ones([2])))
print(len(graphs.of(halves, tf.ones([2])).ops) > 0, kernels.of("MatMul"), memory.now, devices.here(), sep="\\n")
print(fresh.run(lambda: len(tf.config.list_logical_devices("CPU")), cpus=3))
"""


@pytest.mark.parametrize("module", across.__all__)
def test_what_a_module_promises_is_there_with_its_words(module: str):
    of = importlib.import_module(f"across.{module}")
    assert [name for name in of.__all__ if not hasattr(of, name) or name.startswith("_")] == []
    own = [vars(of)[name] for name in of.__all__ if callable(vars(of)[name])]
    assert [each for each in own if not each.__doc__] == []


def test_types_are_for_others_too():
    assert (ROOT / "lib/across/py.typed").is_file()


@pytest.mark.whole
def test_what_serves_programs_of_ones_own_needs_five_distributions():
    asked = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    assert asked == {"cloudpickle", "matplotlib", "numpy", "rich", "tensorflow"}
    of_the_course = {canonicalize_name(Requirement(each).name) for each in PROJECT["optional-dependencies"]["lab"]}
    brought = {"keras", "packaging"}  # by TensorFlow
    absent = {
        module
        for module, names in packages_distributions().items()
        if {canonicalize_name(name) for name in names} & (of_the_course - brought)
    }
    assert {"jupyterlab", "ipykernel", "tf_keras", "typer"} <= absent
    program = [sys.executable, "-c", AT_WORK.format(absent=absent)]
    loud = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}  # and logs nothing
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=300, env=loud)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU:1" in done.stdout
    assert done.stdout.splitlines()[-1] == "3"
