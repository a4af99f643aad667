"""The tiny DVC project that the workflow tests run."""

import subprocess
import sys

GIT_IDENTITY = {
    f"GIT_{who}_{what}": "tester@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
"""The environment in which git commits without a user's settings."""

DVC_YAML = """\
stages:
  split:
    cmd: cat words.txt > split.txt && echo splitting
    deps: [words.txt]
    outs: [split.txt]
  count:
    cmd: wc -w < split.txt > count.txt && echo counting
    deps: [split.txt]
    outs: [count.txt]
  report:
    cmd: 'echo "{\\"count\\": $(cat count.txt)}" > metrics.json'
    deps: [count.txt]
    metrics: [{metrics.json: {cache: false}}]
"""


def dvc(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a dvc command that must succeed."""
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True)
