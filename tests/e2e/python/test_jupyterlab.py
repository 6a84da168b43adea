# SPDX-License-Identifier: Apache-2.0
"""horovod.run in JupyterLab, as a person works with it: a real server, in Debian's Chromium."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

import nbformat.v4
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

TIME_LIMIT = 100  # seconds
AGAIN = 10.0  # seconds after which a key is pressed again that had no effect
DRIVER = Path("/usr/bin/chromedriver")

DEFINE = """
import horovod

def wait_for(path):
    import os, time
    print("begun", flush=True)
    while not os.path.exists(path):
        time.sleep(0.01)
    return int(os.environ["HOROVOD_RANK"]) + 5
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of JupyterLab, with its token, for the files in tmp_path."""
    runtime = tmp_path / "runtime"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_TOKEN": secrets.token_hex(16),
    }
    flags = ("--no-browser", "--allow-root", "--port=0", "--ServerApp.log_level=ERROR")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *flags, f"--ServerApp.root_dir={tmp_path}"],
        env=environment,
        cwd=tmp_path,
    )
    try:
        facts = runtime / f"jpserver-{process.pid}.json"
        wait_until(facts.exists, "JupyterLab does not start")
        port = json.loads(facts.read_text())["port"]
        yield f"http://127.0.0.1:{port}/lab/tree/job.ipynb?token={environment['JUPYTER_TOKEN']}"
    finally:
        process.terminate()
        process.wait(TIME_LIMIT)


@pytest.fixture
def browser() -> Iterator[Chrome]:
    if not DRIVER.exists():
        pytest.skip("chromium-driver is not installed")
    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument("--window-size=1200,1000")
    chrome = Chrome(options=options, service=Service(str(DRIVER)))
    yield chrome
    chrome.quit()


def wait_until(holds: Callable[[], object], words: str) -> None:
    deadline = time.monotonic() + TIME_LIMIT
    while not holds():
        assert time.monotonic() < deadline, words
        time.sleep(0.05)


class Notebook:
    """The page of a notebook."""

    def __init__(self, browser: Chrome, address: str) -> None:
        self._browser = browser
        browser.get(address)
        kernel_is_idle = ".jp-Notebook-ExecutionIndicator[data-status='idle']"
        WebDriverWait(browser, TIME_LIMIT).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, kernel_is_idle)
        )

    def run(self, cell: int) -> None:
        """Shift+Enter in the cell, again where JupyterLab has missed it while it drew the page."""

        pressed = -AGAIN

        def has_begun() -> bool:
            nonlocal pressed
            try:
                here = self._cells()[cell]
                if here.find_element(By.CSS_SELECTOR, ".jp-InputPrompt").text.strip("[]: "):
                    return True
                if time.monotonic() - pressed < AGAIN:
                    return False
                here.find_element(By.CSS_SELECTOR, ".cm-content").click()
            except (IndexError, WebDriverException):
                return False
            keys = ActionChains(self._browser)
            keys.key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
            pressed = time.monotonic()
            return False

        wait_until(has_begun, f"cell {cell} does not begin")

    def interrupt(self) -> None:
        button = "[data-command='notebook:interrupt-kernel'], [data-jp-item-name='interrupt']"
        self._browser.find_element(By.CSS_SELECTOR, button).click()

    def wait_for_text(self, cell: int, text: str) -> str:
        """Until the output of the cell has it."""
        outputs = ".jp-OutputArea-output"

        def output() -> str:
            parts = self._cells()[cell].find_elements(By.CSS_SELECTOR, outputs)
            return "\n".join(part.text for part in parts)

        wait_until(lambda: text in output(), f"cell {cell} does not show {text!r}: {output()!r}")
        return output()

    def _cells(self) -> list:
        return self._browser.find_elements(By.CSS_SELECTOR, ".jp-Notebook .jp-CodeCell")


def test_a_person_runs_a_cell_interrupts_it_and_runs_another(
    server: str, browser: Chrome, tmp_path: Path
) -> None:
    seen, never = tmp_path / "seen", tmp_path / "never"
    cells = [
        DEFINE,
        f"horovod.run(wait_for, ({str(seen)!r},), num_proc=2)",
        f"horovod.run(wait_for, ({str(never)!r},), num_proc=2)",
        "horovod.run(lambda: 'again', num_proc=2)",
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel}
    )
    (tmp_path / "job.ipynb").write_text(nbformat.writes(notebook))
    page = Notebook(browser, server)

    page.run(0)
    page.run(1)
    shown = page.wait_for_text(1, "[0]<stdout>:begun")
    assert "[5, 6]" not in shown
    seen.touch()
    page.wait_for_text(1, "[5, 6]")

    page.run(2)
    page.wait_for_text(2, "begun")
    page.interrupt()
    page.wait_for_text(2, "KeyboardInterrupt")

    page.run(3)
    page.wait_for_text(3, "['again', 'again']")
