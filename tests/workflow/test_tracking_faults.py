"""What goes wrong around MLflow: a full disk, stores of other versions, passwords in addresses."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from typer.testing import CliRunner

from talentrl.cli import app
from talentrl.tracking.journal import Journal
from talentrl.tracking.reasons import redacted
from talentrl.tracking.replay import journals, replay

STEPS = 20
STAGE = f"""\
import os, resource, sys
from pathlib import Path
from talentrl.tracking import track

def fill(folder):
    with open(f"{{folder}}/filler", "wb", buffering=0) as file:
        for size in (1 << 16, 1):  # to the last byte
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass

with track("sft", {{"p": 1}}, {{}}) as run:
    full, freed = sys.argv[1:]
    if full == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    else:
        fill(full)
    for step in range({STEPS}):
        run.log({{"loss": float(step)}}, step)
        run.flush()
        if freed == "freed" and step == {STEPS // 2}:
            os.remove(f"{{full}}/filler")
print("done")
"""


def play(*arguments: str, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    Path("stage.py").write_text(STAGE)
    command = [*prefix, sys.executable, "stage.py", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=600)


def losses(store: MlflowClient) -> list[float]:
    experiment = store.get_experiment_by_name("talentrl")
    [run] = [run for run in store.search_runs([experiment.experiment_id]) if run.info.run_name == "sft"]
    return [metric.value for metric in store.get_metric_history(run.info.run_id, "loss")]


def test_a_stage_goes_on_when_nothing_can_be_written(store: MlflowClient) -> None:
    """Files may not grow: the store takes nothing, and neither does the journal."""
    done = play("limit", "")
    assert done.returncode == 0 and done.stdout == "done\n"
    warnings = done.stderr.splitlines()
    assert len(warnings) == 3, warnings
    assert "MLflow tracking failed" in warnings[0] and "disk" in warnings[0]
    assert "cannot be kept" in warnings[1]
    assert warnings[2] == f"The disk is full: {STEPS + 2} records of the run are lost"
    assert list(replay(journals())) == [], "an empty file at most"
    assert losses(store) == []


# A small file system of its own, which is gone with the process. What follows `--` runs in its folder.
SMALL_DISK = """\
mount -t tmpfs -o size=4m none "$1" && cp mlflow.db stage.py "$1" && cd "$1" && shift && "$@"; code=$?
rm -f filler; sh -c "$AFTER"; exit $code
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[str, ...]:
    """Prefix of a command that then runs on a small disk; `$AFTER` is run there when the disk has room again."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    folder = tmp_path / "disk"
    folder.mkdir()
    if not shutil.which("unshare"):
        pytest.skip("needs unshare (util-linux)")
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", str(folder)], capture_output=True).returncode:
        pytest.skip("needs a kernel that lets users mount a tmpfs in a namespace of their own")
    return (*unshare, "sh", "-c", SMALL_DISK, "sh", str(folder))


def test_what_a_full_disk_did_not_take_is_sent_when_there_is_room(
    store: MlflowClient, small_disk: tuple[str, ...], tmp_path: Path
) -> None:
    done = play(".", "freed", prefix=small_disk, AFTER=f"cp mlflow.db {tmp_path}; ls -A tracking")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n", "no journal is left"
    assert "cannot be kept" in done.stderr and "lost" not in done.stderr
    assert losses(store) == list(range(STEPS))


def test_a_disk_that_stays_full_loses_records_and_not_the_stage(
    store: MlflowClient, small_disk: tuple[str, ...], tmp_path: Path
) -> None:
    done = play(".", "", prefix=small_disk, AFTER=f"cp mlflow.db {tmp_path}")
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
    assert "records of the run are lost" in done.stderr
    assert losses(store) == []


def test_a_full_disk_under_the_store_alone_loses_nothing(
    store: MlflowClient, small_disk: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal lies on another disk."""
    tracking = tmp_path / "kept"
    tracking.mkdir()
    Path("tracking").symlink_to(tracking)
    after = f"cp mlflow.db {tmp_path}"
    link = ("sh", "-c", f'ln -s {tracking} tracking; exec "$@"', "sh")
    done = play(".", "", prefix=(*small_disk, *link), AFTER=after)
    assert done.returncode == 0, done.stderr
    assert "lost" not in done.stderr and losses(store) == []
    monkeypatch.setattr("talentrl.tracking.replay.is_alive", lambda process: False)
    assert len(list(replay(journals()))) == 1
    assert losses(store) == list(range(STEPS))


def test_half_a_line_never_stays_in_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes some bytes of a line and then no more."""
    journal = Journal(tmp_path / "a.jsonl")
    journal.write("tag", ["a", "1"])
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({journal.path.stat().st_size + 5},) * 2)"
    script = f"""{limited}
from pathlib import Path
from talentrl.tracking.journal import Journal
journal = Journal(Path("{journal.path}"))
for tag in "bc":
    try:
        journal.write("tag", [tag, "2"])
    except OSError as error:
        print(error.filename)
print(len(list(journal.read())))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(journal.path), str(journal.path), "3"], "those that wait are read too"
    assert list(journal.read()) == [("tag", ["a", "1"])]


@pytest.mark.parametrize("revision", ["75868b020152", "abcdef012345"])
def test_a_store_of_another_version_of_mlflow_is_named(store: MlflowClient, revision: str) -> None:
    """An older one and one that this version does not know: MLflow says which command helps, and the stage goes on."""
    with sqlite3.connect("mlflow.db") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    Path("stage.py").write_text("from talentrl.tracking import track\nwith track('a', {}, {}): print('done')\n")
    done = subprocess.run([sys.executable, "stage.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
    assert done.stderr.count("\n") == 1 and f"found version {revision}" in done.stderr
    assert "mlflow db upgrade" in done.stderr
    assert len(journals()) == 1


class OldServer(BaseHTTPRequestHandler):
    """Knows its version and none of the requests that MLflow 3 added."""

    def do_GET(self) -> None:
        known = self.path == "/version"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b"2.22.5" if known else b"<!doctype html>")

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_of_another_major_version_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), OldServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}/")
    Path("stage.py").write_text("from talentrl.tracking import track\nwith track('a', {}, {}): print('done')\n")
    done = subprocess.run([sys.executable, "stage.py"], capture_output=True, text=True, check=True)
    server.shutdown()
    assert done.stdout == "done\n" and "404" in done.stderr
    assert f"the server is MLflow 2.22.5 and the client {mlflow.__version__}: their major versions must" in done.stderr


ADDRESSES = [
    "http://user:geheim@127.0.0.1:9",
    "postgresql://user:geheim@127.0.0.1:9/runs",
    "postgresql://user:ge%40heim@127.0.0.1:9/runs",
    "nosuch://user:geheim@127.0.0.1:9",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_password_is_never_shown_or_kept(project: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    Path("stage.py").write_text("from talentrl.tracking import track\nwith track('a', {}, {}): print('done')\n")
    done = subprocess.run([sys.executable, "stage.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n" and "MLflow tracking failed" in done.stderr
    [journal] = journals()
    replayed = CliRunner().invoke(app, ["track", "replay"])
    assert replayed.exit_code == 1
    for text in (done.stderr, journal.read_text(), replayed.output):
        assert "heim" not in text and "user" not in text, text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://a:b@host:1/x and http://c@d", "at http://***@host:1/x and http://***@d"),
        ("postgresql+psycopg://me:p/w@d@host/db failed", "postgresql+psycopg://***@host/db failed"),
        ("http://host:1/x?a=b, mail a@b", "http://host:1/x?a=b, mail a@b"),
        ("the token is t0ken", "the token is ***"),
    ],
)
def test_redacted(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    assert redacted(text) == shown
