"""Why MLflow refused something, in one line that may be shown."""

import os
import re


def reason(error: BaseException) -> str:
    """The error's name and the first line that it says, without secrets."""
    # MLflow wraps what the database said: (sqlite3.OperationalError) … [SQL: …]
    said = str(getattr(error.__cause__, "orig", None) or error)
    return f"{type(error).__name__}: {redacted((said.splitlines() or [''])[0])[:300]}"


def redacted(text: str) -> str:
    """`text` without user names and passwords of addresses, which errors of MLflow and its databases repeat."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    secrets = [os.environ.get(name) for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    for secret in filter(None, [uri.rpartition("@")[0].rpartition("://")[2], *secrets]):
        text = text.replace(secret, "***")
    return re.sub(r"(?<=://)[^\s'\"]*@", "***@", text)
