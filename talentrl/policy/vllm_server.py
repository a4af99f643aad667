"""A vLLM server over HTTP: what it runs, the weights that it takes from a folder, and many requests at once.

vLLM reads weights from a folder on its own machine, so server and client share a file system, as with `make serve`. A
folder that the server cannot read or that does not fit its model would end it: everything is compared before.
"""

import asyncio
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from talentrl.errors import InputError

_CONNECT_SECONDS = 5.0
_RETRIES = 3
"""New attempts to connect, 0, 0.5 and 1 s apart. A request that was sent is not repeated."""
_LOAD_SECONDS = 1800.0
_NO_WEIGHTS_OF_OURS = "default"

# Keys of a model's config.json that change neither its weights nor what it computes.
_IMMATERIAL = {
    *("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "attention_dropout", "initializer_range", "pretraining_tp"),
}


class RequestFailed(RuntimeError):
    """A request came to nothing; the message says why. If the server is gone, the next call raises InputError."""


class VllmServer:
    """A client of the server at `url`; `key` is sent if the server asks for one and is part of no message."""

    def __init__(self, url: str, timeout: float, key: str | None = None) -> None:
        """Nothing is sent yet. `timeout` is in seconds, for one request with its time in the server's queue."""
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._weights = _NO_WEIGHTS_OF_OURS

    @classmethod
    def open(cls, url: str, timeout: float, checkpoint: Path, max_tokens: int) -> "VllmServer":
        """The server at `url`, with the key in VLLM_API_KEY, once it is known to fit the model in `checkpoint`.

        Raises:
            InputError: no vLLM server answers there, it runs another model, does not take conversations of
                `max_tokens` tokens, or lacks a setting that `make serve` gives it.
        """
        server = cls(url, timeout, os.environ.get("VLLM_API_KEY"))
        server._check(checkpoint, max_tokens)
        return server

    def complete(self, bodies: Sequence[dict[str, Any]], at_once: int) -> list[dict[str, Any] | RequestFailed]:
        """The first choice of each completion request, up to `at_once` of them under way; or why there is none.

        An exception that is raised meanwhile (Ctrl-C) closes the connections, on which the server drops the requests.

        Raises:
            InputError: the server was given other weights meanwhile.
        """
        results = asyncio.run(self._complete(bodies, at_once)) if bodies else []
        if failed := [result for result in results if isinstance(result, RequestFailed)]:
            try:
                self._get("/health", f"stopped during a rollout: {failed[0]}")
            except InputError as error:
                return [RequestFailed(str(error)) if isinstance(r, RequestFailed) else r for r in results]
        if bodies and not self.has_weights():
            raise InputError(
                f"vllm.url: the server at {self.url} was given other weights during a rollout; "
                "expected one run at a time on a server"
            )
        return results

    def has_weights(self) -> bool:
        """Whether the server still has the weights of the last `load`: not after a restart or another run's."""
        found: str = self._get("/weight_info")["weight_version"]
        return found == self._weights

    def load(self, folder: Path) -> None:
        """Take the weights of the model in `folder`, which must fit the one served, and forget cached prefixes.

        Raises:
            InputError: the server does not answer, or could not load them.
        """
        path = str(folder.resolve())
        rpc = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        self._post("/collective_rpc", rpc, f"could not load the weights in {path}")
        self._post("/reset_prefix_cache", None, "could not empty its prefix cache")
        self._weights = f"talentrl-{uuid.uuid4().hex}"
        self._post("/update_weight_version", {"new_version": self._weights}, "could not name its weights")

    async def _complete(self, bodies: Sequence[dict[str, Any]], at_once: int) -> list[dict[str, Any] | RequestFailed]:
        timeout = httpx.Timeout(self._timeout, connect=_CONNECT_SECONDS, pool=None)
        transport = httpx.AsyncHTTPTransport(retries=_RETRIES, limits=httpx.Limits(max_connections=at_once))
        options: dict[str, Any] = {"base_url": self.url, "headers": self._headers, "timeout": timeout}
        async with httpx.AsyncClient(transport=transport, **options) as client:
            return await asyncio.gather(*(self._choice(client, body) for body in bodies))

    async def _choice(self, client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any] | RequestFailed:
        try:
            response = await client.post("/v1/completions", json=body)
            response.raise_for_status()
            choice: dict[str, Any] = response.json()["choices"][0]
        except httpx.TimeoutException:
            return RequestFailed(f"vLLM gave no answer within {self._timeout:g} seconds (vllm.timeout)")
        except httpx.HTTPStatusError as error:
            return RequestFailed(f"vLLM refused a request ({error.response.status_code}): {_message(error.response)}")
        except httpx.TransportError as error:
            return RequestFailed(f"the connection to vLLM broke ({_reason(error)})")
        if choice["finish_reason"] not in ("stop", "length"):
            return RequestFailed(f"vLLM ended a request early ({choice['finish_reason']})")
        return choice

    def _check(self, checkpoint: Path, max_tokens: int) -> None:
        answer = self._get("/server_info?config_format=json")
        try:
            info = answer["vllm_config"]["model_config"]
        except (KeyError, TypeError):
            raise InputError(f"vllm.url: what answers at {self.url} is not vLLM") from None
        if info["logprobs_mode"] != "processed_logprobs":
            raise InputError(
                f"vllm.url: the server at {self.url} was started with --logprobs-mode {info['logprobs_mode']}, "
                "expected processed_logprobs: log-probabilities at the sampling temperature"
            )
        if info["max_model_len"] < max_tokens:
            raise InputError(
                f"vllm.url: the server at {self.url} takes conversations of {info['max_model_len']} tokens, "
                f"expected model.max_tokens ({max_tokens}) or more: --max-model-len"
            )
        served = Path(info["model"])
        if not (served / "config.json").is_file():
            raise InputError(
                f"vllm.url: the server at {self.url} runs {info['model']!r}, expected a model folder that is on this "
                "machine too: weights are handed over as files"
            )
        self._compare(served, checkpoint)

    def _compare(self, served: Path, checkpoint: Path) -> None:
        theirs, ours = _config(served), _config(checkpoint)
        for key in sorted(theirs.keys() | ours.keys()):
            if theirs.get(key) != ours.get(key):
                raise InputError(
                    f"vllm.url: the server at {self.url} runs {served} with {key} {theirs.get(key)!r}, expected the "
                    f"architecture of {checkpoint}, {ours.get(key)!r}: `make serve CHECKPOINT={checkpoint}`"
                )
        if _vocabulary(served) != _vocabulary(checkpoint):
            raise InputError(
                f"vllm.url: the server at {self.url} runs {served}, whose tokenizer has another vocabulary than "
                f"{checkpoint}: `make serve CHECKPOINT={checkpoint}`"
            )

    def _get(self, path: str, failed: str = "does not answer") -> Any:
        return self._send("GET", path, None, _CONNECT_SECONDS * 12, failed)

    def _post(self, path: str, body: dict[str, Any] | None, failed: str) -> Any:
        return self._send("POST", path, body, _LOAD_SECONDS, failed)

    def _send(self, method: str, path: str, body: dict[str, Any] | None, seconds: float, failed: str) -> Any:
        """One request on a connection of its own. Raises InputError, its message begins with where and `failed`."""
        transport = httpx.HTTPTransport(retries=_RETRIES)
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        where = f"vllm.url: the server at {self.url} {failed}"
        try:
            with httpx.Client(transport=transport, headers=self._headers, timeout=timeout) as client:
                response = client.request(method, f"{self.url}{path}", json=body)
        except httpx.ConnectError as error:
            raise InputError(f"{where} ({_reason(error)}); `make serve` starts one") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise InputError(f"{where} ({_reason(error)})") from None
        if response.status_code == 401:
            raise InputError(f"{where}: it expects a key; set VLLM_API_KEY")
        if response.status_code == 404:
            raise InputError(f"{where}: found no {path}, expected vLLM with VLLM_SERVER_DEV_MODE=1, as by `make serve`")
        if response.status_code != 200:
            raise InputError(f"{where}: {_message(response)}")
        try:
            return response.json() if response.content else None
        except ValueError:
            raise InputError(f"{where}: what answers there is not vLLM") from None


def _message(response: httpx.Response) -> str:
    """What the server says of an error, in one line."""
    try:
        text = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        text = response.text
    return " ".join(str(text).split())[:300]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _config(folder: Path) -> dict[str, Any]:
    """What config.json says of weights and computation."""
    from transformers import AutoConfig

    try:
        values = AutoConfig.from_pretrained(folder).to_dict()
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: not a Hugging Face model folder ({' '.join(str(error).split())[:200]})") from None
    return {key: json.loads(json.dumps(value)) for key, value in values.items() if key not in _IMMATERIAL}


def _vocabulary(folder: Path) -> dict[str, int]:
    from talentrl.policy.model import load_tokenizer

    return load_tokenizer(folder).get_vocab()
