"""A sweep as one runs it by hand: started from the form of Prefect's UI, compared in MLflow's.

Real servers, model and browser; minutes on two cores. With SCREENSHOTS=FOLDER, pictures of the pages go there.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from dvc_project import GIT_IDENTITY
from ports import free_port
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from talentrl.servers import HOST, Addresses

REPOSITORY = Path(__file__).parents[2]
CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
SECONDS = 60
SWEEP_SECONDS = 2400

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(SWEEP_SECONDS + 900),
    pytest.mark.skipif(shutil.which(DRIVER) is None, reason="no chromedriver (apt-get install chromium-driver)"),
]


class Browser:
    """Finds what a page shows by its text, and waits for it."""

    def __init__(self, pictures: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS:
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
        self.pictures = pictures

    def open(self, address: str) -> None:
        self.driver.get(address)

    def find(self, xpath: str) -> WebElement:
        return WebDriverWait(self.driver, SECONDS).until(
            lambda driver: next((one for one in driver.find_elements(By.XPATH, xpath) if one.is_displayed()), None),
            f"no {xpath} at {self.driver.current_url}",
        )

    def press(self, text: str, tag: str = "button") -> None:
        """Click the element that shows `text`."""
        self.find(f"//{tag}[normalize-space(.)='{text}']").click()

    def type(self, xpath: str, text: str) -> None:
        field = self.find(xpath)
        field.clear()
        field.send_keys(text)

    def tick(self, run: str) -> None:
        """Select a run in MLflow's list, whose boxes lie in another column than the names."""
        index = self.find(f"//*[@role='row'][.//*[normalize-space(.)='{run}']]").get_attribute("row-index")
        xpath = f"//*[@row-index='{index}']//input[contains(@aria-label, 'selection')]"
        box = self.driver.find_element(By.XPATH, xpath)
        self.driver.execute_script("arguments[0].click()", box)

    def scroll_to(self, text: str) -> None:
        element = self.find(f"//*[normalize-space(.)='{text}']")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", element)

    def see(self, *texts: str) -> str:
        """What the page shows, once that contains all `texts`."""

        def shown(driver: webdriver.Chrome) -> str:
            text = driver.find_element(By.TAG_NAME, "body").text
            return text if all(one in text for one in texts) else ""

        return WebDriverWait(self.driver, SECONDS).until(shown, f"no {texts} at {self.driver.current_url}")

    def picture(self, name: str) -> None:
        self.driver.save_screenshot(str(self.pictures / f"{name}.png"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Those of a fresh copy of this repository."""
    folder = tmp_path_factory.mktemp("browser") / "project"
    environment = {
        **os.environ,
        **GIT_IDENTITY,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for name in ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PYTHONPATH"):
        environment.pop(name, None)
    files = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    for name in files.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    for command in ("git init -q", "git add .", "git commit -qm start"):
        subprocess.run(command, shell=True, cwd=folder, env=environment, check=True)
    prefect, mlflow = free_port(), free_port()
    up = ["talentrl", "up", "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]
    with subprocess.Popen(up, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any("Ctrl-C" in line for line in process.stdout), "the servers did not start"
            yield Addresses(f"http://{HOST}:{prefect}", f"http://{HOST}:{mlflow}")
        finally:
            process.terminate()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser(folder)
    yield browser
    browser.driver.quit()


def wait_for_end(prefect: str, run: str) -> None:
    """Wait until Prefect's server says that the flow run has completed."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while (state := httpx.get(f"{prefect}/api/flow_runs/{run}").json()["state_type"]) != "COMPLETED":
        assert state in ("SCHEDULED", "PENDING", "RUNNING") and time.monotonic() < deadline, state
        time.sleep(2)


def test_a_sweep_from_the_form_to_the_comparison(servers: Addresses, browser: Browser) -> None:
    browser.open(f"{servers.prefect}/deployments")
    browser.press("sweep", "a")
    browser.press("Run")
    browser.press("Custom run")
    browser.see("a sweep file: it names the rows", "rows that run side by side", "Validate parameters")
    browser.type("//textarea", "sweeps/small.yaml")
    browser.picture("prefect-form")
    browser.press("Submit")

    link = browser.find("//a[contains(@href, '/runs/flow-run/')]").get_attribute("href")
    assert link is not None
    browser.open("about:blank")  # the moving picture of a run takes a core while it is drawn by software
    wait_for_end(servers.prefect, link.rsplit("/", 1)[1])
    browser.open(link)
    browser.press("Task Runs", "li")
    browser.see("2 Task runs", "2 Completed", "reference", "slower")
    browser.picture("prefect-rows")
    browser.press("Artifacts", "li")
    browser.see("sweep-small")
    browser.open(f"{servers.prefect}/artifacts/key/sweep-small")  # its versions, the newest first
    browser.find("//a[contains(@href, '/artifacts/artifact/')]").click()
    table = browser.see("minus reference/rl", "sft.learning_rate=0.0001", "2 of 2 rows have finished")
    assert "not run" not in table
    browser.picture("prefect-table")

    browser.open(f"{servers.mlflow}/#/experiments/1/runs")
    browser.find("//button[@aria-label='Close']").click()  # the assistant beside the runs
    browser.type("//input[@data-testid='search-box']", f"tags.sweep = 'small'{Keys.ENTER}")
    browser.see("reference", "slower", "matching runs")
    for row in ("reference", "slower"):
        browser.tick(row)
    browser.press("Compare")
    browser.see("Comparing 2 Runs", "sft.learning_rate", "sft/loss")
    browser.picture("mlflow-comparison")
    browser.scroll_to("evaluate/rl/episodes")  # the table draws only the lines in sight
    browser.see("evaluate/rl/return")
