"""vLLM servers for tests: the real one as `make serve` starts it, and a scripted one."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ports import free_port

REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = Path(os.environ.get("TALENTRL_VLLM", REPOSITORY / ".venv-vllm"))
"""Where `make serve-env` installed vLLM."""
STARTUP_SECONDS = 600


class RealServer:
    """A vLLM server on `folder`; `stop` ends it at once."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder, self._log = folder, log
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        variables = [f"SERVE_VENV={ENVIRONMENT}", f"CHECKPOINT={folder}", f"PORT={port}"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["nice", "make", "serve", *variables],
                cwd=REPOSITORY,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            time.sleep(1)
        self.stop()
        raise RuntimeError(f"vLLM did not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def metric(self, name: str) -> float:
        """The present value of one of the server's metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ScriptedServer:
    """What the engine asks of vLLM, answered by a script: `complete` is given a request's body and returns a choice,
    or a status and a body. All requests are kept, as (path, body)."""

    def __init__(self, folder: Path) -> None:
        self.model_config = {"model": str(folder), "logprobs_mode": "processed_logprobs", "max_model_len": 256}
        self.complete: Callable[[dict[str, Any]], Any] = lambda body: completion([1])
        self.requests: list[tuple[str, Any]] = []
        self.keys: set[str | None] = set()
        self.answers: dict[str, tuple[int, Any]] = {}
        """Path -> status and body, in place of the usual ones."""
        self.version = "default"
        self.on_load: Callable[[Path], None] = lambda folder: None
        self.url = ""

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path in self.answers:
            return self.answers[path]
        if path == "/server_info":
            return 200, {"vllm_config": {"model_config": self.model_config}}
        if path == "/weight_info":
            return 200, {"weight_version": self.version}
        if path == "/collective_rpc":
            self.on_load(Path(body["kwargs"]["weights_path"]))
        if path == "/update_weight_version":
            self.version = body["new_version"]
        if path == "/v1/completions":
            choice = self.complete(body)
            return choice if isinstance(choice, tuple) else (200, {"choices": [choice]})
        return 200, {}

    def asked(self, path: str) -> list[Any]:
        """Bodies of the requests to `path`."""
        return [body for found, body in self.requests if found == path]


def completion(token_ids: list[int], reason: str = "length") -> dict[str, Any]:
    """A choice as vLLM gives it, each token with log-probability −1."""
    return {"token_ids": token_ids, "finish_reason": reason, "logprobs": {"token_logprobs": [-1.0] * len(token_ids)}}


@contextmanager
def scripted_server(folder: Path) -> Iterator[ScriptedServer]:
    """A scripted server that has loaded the model in `folder`."""
    script = ScriptedServer(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._respond(json.loads(content) if content else None)

        def _respond(self, body: Any) -> None:
            path = self.path.partition("?")[0]
            script.requests.append((path, body))
            script.keys.add(self.headers.get("Authorization"))
            status, answer = script.answer(path, body)
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
