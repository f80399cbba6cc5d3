"""A server that is not started by `across lab`, with the settings that docs/jupyterhub.md names: a plain `jupyter lab`.

A JupyterHub is in tests/autograder/test_jupyterhub.py. What it starts is a Jupyter server with an address of its own and
variables of its own, as this.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import free_port, serving

from across._jupyter import lab

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "jupyterhub.md").read_text(encoding="utf-8")
MACHINE = {"system": "HubOS", "limits": {"cores": 7}, "chapters": {}, "diagnosis": {"says": "It runs.", "mend": ""}}
BASE, TOKEN = "/user/ada/", "secret"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a student, with the notebooks in a folder of it."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def ask(home: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Asks the server of the student, whose home is served."""
    (home / "notebooks" / "zh").mkdir(parents=True)
    for name in ("notebooks/03_device_placement.ipynb", "notebooks/zh/03_device_placement.ipynb"):
        (home / name).write_bytes((ROOT / name).read_bytes())
    (home / "machine.json").write_text(json.dumps(MACHINE))
    port = free_port()
    env = {key: value for key, value in os.environ.items() if key not in ("ACROSS_COURSE", "JUPYTER_CONFIG_DIR")}
    env |= {"HOME": str(home), "JUPYTER_CONFIG_PATH": str(lab.ON_A_HUB), "JUPYTER_PATH": str(lab.DATA)}
    env |= {"ACROSS_MACHINE": str(home / "machine.json")}
    env |= {"JUPYTER_DEFAULT_PROVISIONER_NAME": "across-warm", "JUPYTER_DATA_DIR": str(home / ".data")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--allow-root"]
    command += [f"--ServerApp.base_url={BASE}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={home}"]

    def asked(path: str, method: str = "GET", body: str = "") -> tuple[int, str]:
        url = f"http://127.0.0.1:{port}{BASE}{path}{'&' if '?' in path else '?'}token={TOKEN}"
        try:
            question = urllib.request.Request(url, body.encode() or None, method=method)
            with urllib.request.urlopen(question, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    with serving(command, home, env, home / ".log"):
        yield asked


def test_validate_is_ours_and_the_exchange_is_nbgraders(ask: Callable[[str], tuple[int, str]]):
    assert json.loads(ask("across/validate")[1]) == {}  # nothing is validated
    assert ask("assignments/validate")[0] == 404  # 405 where nbgrader answers it
    assert ask("courses")[0] == 200  # of nbgrader's list of assignments
    config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', ask("lab")[1], re.DOTALL)[1])
    assert "across" in [each["name"] for each in config["federated_extensions"]]
    assert "@jupyter/nbgrader:validate-assignment" in config["disabledExtensions"]
    assert "@jupyter/nbgrader:assignment-list" not in config["disabledExtensions"]
    assert "acrossWords" not in config


def test_the_start_page_leads_to_the_notebooks_below_the_folder_that_is_served(ask: Callable[[str], tuple[int, str]]):
    page = ask("across/start")[1]
    assert f'href="{BASE}lab/tree/notebooks/03_device_placement.ipynb"' in page
    assert 'data-path="notebooks/03_device_placement.ipynb"' in page


def test_the_page_installs_extras_that_a_release_has():
    handed_out = tomllib.loads((ROOT / "lib" / "handout.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"uv sync --extra (\w+)", PAGE)) == {"exchange"} <= set(handed_out["optional-dependencies"])


def test_the_start_page_says_of_the_machine_what_the_hub_was_told_of_it(ask: Callable[[str], tuple[int, str]]):
    until = time.monotonic() + 30  # the first look begins to read it
    while "HubOS, 7 processor cores. It runs." not in (page := ask("across/start")[1]):
        assert time.monotonic() < until, page


def test_the_page_says_the_settings_that_are_tested_here():
    said = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert f'{{jupyter}}/{lab.ON_A_HUB.name}"' in said
    assert f'"JUPYTER_PATH": f"{{jupyter}}/{lab.DATA.name}"' in said
    assert '"JUPYTER_DEFAULT_PROVISIONER_NAME": "across-warm"' in said
    assert f"{{jupyter}}/{lab.IN_LANGUAGE.name}/zh:" in said
    assert '"ACROSS_MACHINE": "' in said
