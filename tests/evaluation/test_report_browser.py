"""The report in a real browser: it draws, fits a phone, loads nothing and logs no error."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from evaluation_samples import sample_inputs

from talentrl.evaluation.report import write_report

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-sync", "--hide-scrollbars", "--enable-logging=stderr"),
)
# The page itself has no script; the probe is added to a copy.
PROBE = """<script>addEventListener("load", () => {
  const size = element => { const box = element.getBoundingClientRect(); return [box.width, box.height]; };
  const text = [...document.querySelectorAll("svg text")].filter(t => t.textContent.trim());
  document.title = JSON.stringify({
    charts: [...document.querySelectorAll("svg")].map(size),
    text: text.map(size),
    loaded: performance.getEntriesByType("resource").map(entry => entry.name),
    width: document.documentElement.scrollWidth, window: innerWidth,
  });
});</script></body>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which(CHROMIUM) is None, reason=f"{CHROMIUM} is not installed (apt-get install chromium)"
    ),
]


def chromium(folder: Path, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "index.html"
    write_report(path, **sample_inputs())
    return path


@pytest.mark.parametrize("width", [1200, 500])
def test_charts_are_drawn_and_the_page_fits(page, tmp_path, width):
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE), encoding="utf-8")
    result = chromium(tmp_path, probed, f"--window-size={width},1000", "--dump-dom")
    assert "CONSOLE" not in result.stderr
    found = re.search(r"<title>(\{.*?\})</title>", result.stdout)
    assert found, result.stderr
    seen = json.loads(found[1])
    assert len(seen["charts"]) >= 9
    assert all(w > 200 and h > 60 for w, h in seen["charts"])
    assert all(w > 0 and h > 0 for w, h in seen["text"])
    assert seen["loaded"] == []
    assert seen["width"] <= seen["window"]


def test_screenshot_is_taken_without_a_console_message(page, tmp_path):
    picture = tmp_path / "report.png"
    result = chromium(tmp_path, page, "--window-size=1200,2400", f"--screenshot={picture}")
    assert "CONSOLE" not in result.stderr
    assert picture.stat().st_size > 50_000
