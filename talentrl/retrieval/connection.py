"""Connection to an Elasticsearch server: settings from the environment, retries, and errors in one line.

    ELASTICSEARCH_URL        e.g. https://localhost:9200
    ELASTICSEARCH_API_KEY    or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD
    ELASTICSEARCH_CA_FILE    the certificate authority of a server with its own certificate

Secrets are read here and handed to the client; they are never logged or part of a message.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from talentrl.errors import InputError

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

TIMEOUT_SECONDS = 30.0
_ATTEMPTS = 4
_BACKOFF_SECONDS = 0.5
_BUSY = {429, 502, 503, 504}

Result = TypeVar("Result")


def connect(environment: Mapping[str, str] = os.environ) -> "Elasticsearch":
    """A client for the server that the environment names. Nothing is sent yet.

    Raises:
        InputError: the client is not installed, the URL is missing or not one, or a setting contradicts another.
    """
    try:
        from elasticsearch import Elasticsearch
    except ImportError as error:
        raise InputError(
            "retrieval.backend: found elasticsearch, but its client is not installed; "
            "run `pip install 'talentrl[elasticsearch]'`"
        ) from error
    url = environment.get("ELASTICSEARCH_URL", "")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # A URL may carry a password: it is not repeated.
        found = "nothing" if not url else "something else"
        raise InputError(f"ELASTICSEARCH_URL: found {found}, expected the server's URL such as http://localhost:9200")
    key, user = environment.get("ELASTICSEARCH_API_KEY"), environment.get("ELASTICSEARCH_USER")
    password = environment.get("ELASTICSEARCH_PASSWORD")
    if key and user:
        raise InputError("found ELASTICSEARCH_API_KEY and ELASTICSEARCH_USER, expected one of them")
    if bool(user) != bool(password):
        raise InputError("expected ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD together, found one of them")
    ca_file = environment.get("ELASTICSEARCH_CA_FILE")
    if ca_file and not Path(ca_file).is_file():
        raise InputError(f"ELASTICSEARCH_CA_FILE: {ca_file}: no such file")
    host = f"{parts.scheme}://{parts.netloc}" if parts.port else f"{parts.scheme}://{parts.netloc}:9200"
    options: dict[str, Any] = {"request_timeout": TIMEOUT_SECONDS, "max_retries": 0}
    if key:
        options["api_key"] = key
    if user and password:
        options["basic_auth"] = (user, password)
    if ca_file:
        options["ca_certs"] = ca_file
    return Elasticsearch(host + parts.path, **options)


def request(call: Callable[..., Result], *, retry: bool = True, **arguments: Any) -> Result:
    """`call(**arguments)`, again after a random and growing pause while the server is busy or does not answer.

    Raises:
        InputError: the server cannot be reached or refuses; the message says what to do.
    """
    from elasticsearch import ApiError, TransportError, UnsupportedProductError

    for attempt in range(_ATTEMPTS):
        last = attempt + 1 == _ATTEMPTS or not retry
        try:
            return call(**arguments)
        except UnsupportedProductError:
            raise InputError("ELASTICSEARCH_URL: what answers there is not Elasticsearch") from None
        except ApiError as error:
            if last or error.meta.status not in _BUSY:
                raise InputError(_explain_refusal(error)) from None
        except TransportError as error:
            if last or type(error).__name__ not in ("ConnectionError", "ConnectionTimeout"):
                raise InputError(_explain_silence(error)) from None
        time.sleep(random.uniform(0.5, 1.0) * _BACKOFF_SECONDS * 2**attempt)
    raise AssertionError("unreachable")


def reason(error: Any) -> str:
    """The innermost reason in an error of the server."""
    if not isinstance(error, Mapping):
        return str(error)
    causes = error.get("root_cause") or [error.get("caused_by")]
    inner = causes[0] if causes and isinstance(causes[0], Mapping) else error
    return str(inner.get("reason") or error.get("reason") or error.get("type") or dict(error))


def _explain_refusal(error: Any) -> str:
    status, kind = error.meta.status, error.error
    body = error.body.get("error") if isinstance(error.body, Mapping) else None
    advice = {
        401: "wrong or missing credentials; set ELASTICSEARCH_API_KEY or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD",
        403: "the credentials lack a privilege, or the index is blocked for writing (a full disk does that)",
        408: "the cluster is not ready (see `GET _cluster/health`)",
        413: "the request is too large; http.max_content_length on the server limits it",
        429: "the server is overloaded or its disk is past the flood-stage watermark; free space or try later",
        503: "the cluster is not ready (see `GET _cluster/health`)",
    }.get(status)
    if kind == "media_type_header_exception":
        advice = "the client is newer than the server; run `pip install 'elasticsearch>=8.19,<9'`"
    return f"Elasticsearch refused ({status} {kind}): {advice + ': ' if advice else ''}{reason(body or kind)}"


def _explain_silence(error: Any) -> str:
    kind = type(error).__name__
    if kind == "TlsError":
        return f"Elasticsearch: the server's certificate is not trusted; set ELASTICSEARCH_CA_FILE ({error.message})"
    if kind == "ConnectionTimeout":
        return f"Elasticsearch did not answer within {TIMEOUT_SECONDS:g} seconds"
    return (
        "Elasticsearch does not answer at ELASTICSEARCH_URL: start the server, or set retrieval.backend to embedded "
        f"({str(error.message).splitlines()[0][:200]})"
    )
