"""Why MLflow refused something, in one line that may be shown."""

import os
import re
from contextlib import suppress


def reason(error: BaseException) -> str:
    """The error's name and the first line that it says, without secrets."""
    # MLflow wraps what the database said: (sqlite3.OperationalError) … [SQL: …]
    said = str(getattr(error.__cause__, "orig", None) or error)
    return f"{type(error).__name__}: {redacted((said.splitlines() or [''])[0])[:300]}{_mismatch()}"


def _mismatch() -> str:
    """A remark if the server is of another major version: it then lacks what it is asked for, and answers 404."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri.startswith("http"):
        return ""
    import mlflow
    import requests

    with suppress(requests.RequestException):
        answer = requests.get(f"{uri.rstrip('/')}/version", timeout=5)
        server, client = answer.text.strip(), mlflow.__version__
        if answer.ok and re.fullmatch(r"\d+\.[\w.]+", server) and server.split(".")[0] != client.split(".")[0]:
            return f"; the server is MLflow {server} and the client {client}: their major versions must match"
    return ""


def redacted(text: str) -> str:
    """`text` without user names and passwords of addresses, which errors of MLflow and its databases repeat."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    secrets = [os.environ.get(name) for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    for secret in filter(None, [uri.rpartition("@")[0].rpartition("://")[2], *secrets]):
        text = text.replace(secret, "***")
    return re.sub(r"(?<=://)[^\s'\"]*@", "***@", text)
