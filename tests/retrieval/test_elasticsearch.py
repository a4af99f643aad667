"""What is particular to the Elasticsearch back end: versions behind an alias, refusals, and the connection."""

import itertools
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from talentrl.errors import InputError
from talentrl.retrieval import connection
from talentrl.retrieval.connection import connect, request
from talentrl.retrieval.elasticsearch import ElasticsearchIndex
from talentrl.retrieval.index import Document

OLD = [Document("a", "old text"), Document("b", "old words")]
NEW = [Document("c", "new text")]
numbers = itertools.count()


@pytest.fixture
def alias(client: Any) -> Iterator[str]:
    name = f"test-{os.getpid()}-{next(numbers)}"
    yield name
    for index in client.indices.get(index=f"{name}-*"):
        client.indices.delete(index=index)


def indices(client: Any, alias: str) -> list[str]:
    return sorted(client.indices.get(index=f"{alias}-*"))


def behind(client: Any, alias: str) -> list[str]:
    return sorted(client.indices.get_alias(name=alias))


def test_a_build_replaces_the_version_behind_the_alias(client, alias, encoder):
    ElasticsearchIndex.build(client, alias, OLD, encoder, digest="d" * 64)
    (first,) = behind(client, alias)
    assert first.startswith(f"{alias}-{'d' * 12}-")
    reader = ElasticsearchIndex(client, alias, encoder)
    ElasticsearchIndex.build(client, alias, NEW, encoder, digest="e" * 64)
    assert indices(client, alias) == behind(client, alias) != [first]
    assert [hit.id for hit in reader.search("text", 5)] == ["c"]


def test_an_interrupted_build_leaves_the_old_version_and_nothing_else(client, alias, encoder, monkeypatch):
    ElasticsearchIndex.build(client, alias, OLD, encoder)
    before = indices(client, alias)

    def interrupt(*_: object) -> Iterator[dict[str, Any]]:
        yield {"_index": indices(client, alias)[-1], "_id": "c", "_source": {}}
        raise KeyboardInterrupt

    monkeypatch.setattr("talentrl.retrieval.elasticsearch._puts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ElasticsearchIndex.build(client, alias, NEW, encoder)
    assert indices(client, alias) == before == behind(client, alias)
    assert ElasticsearchIndex(client, alias, encoder).count() == 2


def test_what_a_killed_build_left_goes_with_the_next_one(client, alias, encoder):
    ElasticsearchIndex.build(client, alias, OLD, encoder)
    (name,) = indices(client, alias)
    meta = client.indices.get_mapping(index=name)[name]["mappings"]["_meta"]
    client.indices.create(index=f"{alias}-half-built", mappings={"_meta": meta})
    stranger = f"{alias}-of-someone-else"
    client.indices.create(index=stranger)
    ElasticsearchIndex.build(client, alias, NEW, encoder)
    assert set(indices(client, alias)) == {*behind(client, alias), stranger}


def test_the_analyser_is_a_setting_since_small_servers_lack_english(client, alias, encoder):
    ElasticsearchIndex.build(client, alias, OLD, encoder, analyzer="standard")
    (mapping,) = client.indices.get_mapping(index=alias).values()
    assert mapping["mappings"]["properties"]["text"]["analyzer"] == "standard"


def test_refused_documents_are_named_and_the_alias_stays(client, alias, encoder, monkeypatch):
    ElasticsearchIndex.build(client, alias, OLD, encoder)
    wrong = np.ones((1, 3), dtype=np.float32)  # another dimension than the mapping's
    monkeypatch.setattr("talentrl.retrieval.elasticsearch.encode_documents", lambda *_: wrong)
    with pytest.raises(InputError, match=r"refused 1 documents: 'c'"):
        ElasticsearchIndex.build(client, alias, NEW, encoder)
    assert ElasticsearchIndex(client, alias, encoder).count() == 2


def test_zero_embedding_is_refused(client, alias, encoder, monkeypatch):
    monkeypatch.setattr(encoder, "encode", lambda texts: np.zeros((len(texts), 16), dtype=np.float32))
    with pytest.raises(InputError, match="'c': its embedding is zero"):
        ElasticsearchIndex.build(client, alias, NEW, encoder)
    assert not indices(client, alias)


def test_opening_checks_what_the_index_was_made_for(client, alias, encoder):
    with pytest.raises(InputError, match="no such index; rerun the index stage"):
        ElasticsearchIndex(client, alias, encoder)
    ElasticsearchIndex.build(client, alias, OLD, encoder, digest="d1")
    ElasticsearchIndex(client, alias, encoder, digest="d1")
    with pytest.raises(InputError, match="found digest 'd1', expected 'd2'; rerun the index stage"):
        ElasticsearchIndex(client, alias, encoder, digest="d2")
    with pytest.raises(InputError, match="found encoder 'hashing-1', expected 'hashing-2'"):
        ElasticsearchIndex(client, alias, type(encoder)("hashing-2"))


def test_a_megabyte_of_text_is_found(client, alias, encoder):
    long = Document("long", "needle " + "hay " * 250_000)
    index = ElasticsearchIndex.build(client, alias, [*OLD, long], encoder)
    assert index.search("needle", 1)[0].id == "long"
    assert index.documents(["long"]) == [long]


def test_no_request_needs_a_paid_licence(client, alias, encoder, monkeypatch):
    index = ElasticsearchIndex.build(client, alias, OLD, encoder)
    real, sent = client.msearch, []
    monkeypatch.setattr(client, "msearch", lambda **body: sent.append(body) or real(**body))
    index.search("old", 1, {"a": 1.0}, 2.0)
    assert "knn" in json.dumps(sent)
    assert not any(word in json.dumps(sent) for word in ("retriever", "rrf", "linear", "script"))


def test_a_batch_of_queries_is_one_request(client, alias, encoder, monkeypatch):
    index = ElasticsearchIndex.build(client, alias, OLD, encoder)
    real, calls = client.msearch, []
    monkeypatch.setattr(client, "msearch", lambda **body: calls.append(1) or real(**body))
    assert len(index.search_many(["old", "text", "words"], 1)) == 3
    assert len(calls) == 1
    assert index.search_many([], 1) == [] and len(calls) == 1


class Scripted:
    """A server that answers with the given statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int, product: str = "Elasticsearch") -> None:
        self.asked = 0
        outer, answers = self, [*statuses]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = answers[min(outer.asked, len(answers) - 1)]
                outer.asked += 1
                error = {"type": "some_exception", "reason": "the reason"}
                body = {"count": 7} if status == 200 else {"error": {"root_cause": [error], **error}, "status": status}
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Elastic-Product", product)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", pauses.append)
    return pauses


def test_a_busy_server_is_asked_again_after_growing_pauses(no_pauses):
    scripted = Scripted(429, 503, 200)
    client = connect({"ELASTICSEARCH_URL": scripted.url})
    assert request(client.count, index="x")["count"] == 7
    assert scripted.asked == 3
    assert 0.25 <= no_pauses[0] <= 0.5 <= no_pauses[1] <= 1.0


@pytest.mark.parametrize(
    ("status", "message", "asked"),
    [
        (401, "wrong or missing credentials; set ELASTICSEARCH_API_KEY", 1),
        (403, "blocked for writing", 1),
        (400, r"refused \(400 some_exception\): the reason", 1),
        (408, "cluster is not ready", 1),
        (429, "flood-stage watermark", 4),
        (503, "cluster is not ready", 4),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(status, message, asked):
    scripted = Scripted(status)
    client = connect({"ELASTICSEARCH_URL": scripted.url})
    with pytest.raises(InputError, match=message) as caught:
        request(client.count, index="x")
    assert scripted.asked == asked
    assert "\n" not in str(caught.value)


def test_a_client_newer_than_the_server_names_the_one_to_install():
    from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
    from elasticsearch import BadRequestError

    meta = ApiResponseMeta(400, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "localhost", 9200))
    body = {"error": {"type": "media_type_header_exception", "reason": "Accept version must be either 8 or 7"}}

    def refuse(**_):
        raise BadRequestError("media_type_header_exception", meta, body)

    with pytest.raises(InputError, match=r"pip install 'elasticsearch>=8.19,<9'.*Accept version"):
        request(refuse)


def test_another_product_is_named_as_such():
    client = connect({"ELASTICSEARCH_URL": Scripted(200, product="Something").url})
    with pytest.raises(InputError, match="what answers there is not Elasticsearch"):
        request(client.count, index="x")


def test_no_server_is_one_line_without_the_password():
    environment = {"ELASTICSEARCH_URL": "http://127.0.0.1:1"}
    environment |= {"ELASTICSEARCH_USER": "me", "ELASTICSEARCH_PASSWORD": "secret"}
    with pytest.raises(InputError, match="start the server, or set") as caught:
        request(connect(environment).count, index="x")
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "ELASTICSEARCH_URL: found nothing"),
        ({"ELASTICSEARCH_URL": "localhost:9200"}, "ELASTICSEARCH_URL: found something else"),
        ({"ELASTICSEARCH_USER": "me"}, "together"),
        ({"ELASTICSEARCH_PASSWORD": "secret"}, "together"),
        ({"ELASTICSEARCH_API_KEY": "k", "ELASTICSEARCH_USER": "me"}, "expected one of them"),
        ({"ELASTICSEARCH_CA_FILE": "/no/such.pem"}, "/no/such.pem: no such file"),
    ],
)
def test_bad_connection_settings_are_refused(settings, message):
    url = {} if "URL" in message else {"ELASTICSEARCH_URL": "http://localhost:9200"}
    with pytest.raises(InputError, match=message):
        connect(url | settings)
