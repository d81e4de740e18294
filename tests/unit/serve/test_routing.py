"""The document: true, because it is compared with what answers."""

import json
import os
import re
from pathlib import Path

import pytest
from tests.openapi import described, statuses
from tests.served import Serve, Served

from transduce.io.machine import VERSION
from transduce.serve import app
from transduce.serve.app import PAGE_POLICY, page_responses
from transduce.serve.routing import Endpoint, Operation, json_response

FILES = page_responses()
STORED = Path(app.__file__).with_name("openapi.json")

Document = dict[str, dict[str, dict[str, dict[str, object]]]]


@pytest.fixture
def document(served: Served) -> Document:
    return served.ask("GET", "/openapi.json").json()


def operations(served: Served) -> list[Operation]:
    endpoints = [route.endpoint for route in served.app.routes]
    return [endpoint.operation for endpoint in endpoints if isinstance(endpoint, Endpoint)]


def test_requests_and_summaries_are_those_of_the_operations(served: Served) -> None:
    stored = json.loads(STORED.read_text())

    wanted = described(stored, operations(served))

    if os.environ.get("TRANSDUCE_FREEZE"):
        STORED.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n")
    assert stored == wanted


def test_it_is_openapi_3_1(document: Document) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == VERSION


def test_every_reference_leads_somewhere_and_nothing_is_left(
    served: Served, document: Document
) -> None:
    text = json.dumps(document)
    names = set(re.findall(r'"#/components/(\w+/\w+)"', text))

    kinds = document["components"]
    defined = {f"{kind}/{name}" for kind in kinds for name in kinds[kind]}
    requests = {f"schemas/{way.request.__name__}" for way in operations(served) if way.request}
    assert names <= defined
    assert defined - names <= requests  # fields of a query stand in their operation
    assert "<" not in re.sub(r'"description": "[^"]*"', "", text)


def test_the_statuses_of_an_operation_are_those_of_its_kind(
    served: Served, document: Document
) -> None:
    for operation in operations(served):
        if operation.path in document["paths"]:
            way = document["paths"][operation.path][operation.method.lower()]
            documented = set(map(int, way["responses"]))
            assert statuses(operation) <= documented
            assert min(documented) == operation.success_status or min(documented) == 204
            assert documented - {min(documented)} <= {*range(400, 600)}


def test_it_has_libretranslate_s_name_too(served: Served, document: Document) -> None:
    assert served.ask("GET", "/spec").json() == document


def test_every_model_has_a_name_of_its_own(document: Document) -> None:
    assert not [name for name in document["components"]["schemas"] if "__" in name]


def test_requests_name_the_loaded_languages(serve: Serve) -> None:
    document = serve("en-de", "fr-de").ask("GET", "/openapi.json").json()
    schemas = document["components"]["schemas"]

    assert schemas["TranslateRequest"]["properties"]["source"]["enum"] == ["auto", "en", "fr"]
    assert schemas["NativeTranslateRequest"]["properties"]["target"]["enum"] == ["de", None]
    assert schemas["DeepLTranslateRequest"]["properties"]["target_lang"]["enum"] == ["DE"]
    assert "enum" not in schemas["NativeTranslateResponse"]["properties"]["source"]


def test_every_operation_has_a_name_of_its_own(document: Document) -> None:
    names = [item["operationId"] for ways in document["paths"].values() for item in ways.values()]

    assert len(set(names)) == len(names)


def test_every_operation_of_the_apis_is_there_and_no_other(
    served: Served, document: Document
) -> None:
    own = {(way.path, way.method.lower()) for way in operations(served)}
    own -= {("/", "get"), ("/page/{name}", "get")}

    assert {(path, verb) for path, ways in document["paths"].items() for verb in ways} == own


def test_what_is_there_answers(served: Served, document: Document) -> None:
    for path, ways in document["paths"].items():
        for verb in ways:
            result = served.ask(verb.upper(), path.replace("{name}", "x"))
            assert result.status_code != 405
            assert str(result.status_code) in ways[verb]["responses"]


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/api/translate", ["json"]),
        ("/v1/chat/completions", ["json"]),
        ("/v3/glossaries", ["json"]),
        ("/translate_file", ["form-data"]),
        ("/v2/glossaries", ["json", "x-www-form-urlencoded", "form-data"]),
    ],
)
def test_the_bodies_that_a_request_may_have(
    document: Document, path: str, kinds: list[str]
) -> None:
    content = document["paths"][path]["post"]["requestBody"]["content"]

    assert [kind.rpartition("/")[2] for kind in content] == kinds


def test_the_content_of_an_answer_is_what_its_handler_returns(document: Document) -> None:
    def content(path: str, status: str) -> object:
        return document["paths"][path]["post"]["responses"][status].get("content")

    model = {"$ref": "#/components/schemas/ChatResponse"}
    chat = {"application/json": {"schema": model}, "text/event-stream": {}}
    assert content("/v1/chat/completions", "200") == chat
    model = {"$ref": "#/components/schemas/GlossaryInfoV2"}
    assert content("/v2/glossaries", "201") == {"application/json": {"schema": model}}


def test_each_api_says_errors_in_its_own_shape(document: Document) -> None:
    def shape(path: str) -> str:
        name = document["paths"][path]["post"]["responses"]["400"]["$ref"].rpartition("/")[2]
        answer = document["components"]["responses"][name]
        return answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]

    assert shape("/v2/translate") == "DeepLErrorResponse"
    assert shape("/translate") == shape("/api/translate") == "ErrorResponse"


def test_what_counts_as_a_request_may_be_rejected_for_its_rate(document: Document) -> None:
    def paths_with(status: str) -> set[str]:
        return {
            path
            for path, ways in document["paths"].items()
            if any(status in way["responses"] for way in ways.values())
        }

    deepl = {path for path in document["paths"] if path.startswith(("/v2/", "/v3/"))}
    models = {"/translate", "/translate_file", "/api/translate", "/api/alternatives"}
    models |= {"/api/attention", "/v1/chat/completions"}
    opus_cat = ("/MTRestService/", "/MtRestService/")
    models |= {prefix + name for prefix in opus_cat for name in ("Translate", "TranslateJson")}
    models |= {f"{prefix}TranslatePost" for prefix in opus_cat}
    others = {"/detect", "/suggest", *(f"{prefix}CheckModelStatus" for prefix in opus_cat)}
    assert paths_with("429") == deepl | models | others
    assert paths_with("456") == {"/v2/translate", "/v2/document"}
    assert paths_with("504") == models | {"/v2/translate"}


def test_a_form_has_no_lists_but_deepl_s(document: Document) -> None:
    def fields(path: str) -> dict[str, dict[str, object]]:
        kinds = document["paths"][path]["post"]["requestBody"]["content"]
        reference = kinds["application/x-www-form-urlencoded"]["schema"]["$ref"]
        return document["components"]["schemas"][reference.rpartition("/")[2]]["properties"]

    assert fields("/translate")["q"]["type"] == "string"
    assert fields("/v2/translate")["text"]["type"] == "array"


def test_what_is_no_number_in_json_is_null() -> None:
    content = {"scores": (float("nan"), float("-inf"), 0.5), "text": "é"}

    assert json_response(content).body == '{"scores":[null,null,0.5],"text":"é"}'.encode()


def test_the_page_is_served_with_its_policy(served: Served) -> None:
    result = served.ask("GET", "/")

    assert result.status_code == 200
    assert result.headers["content-type"].startswith("text/html")
    assert result.headers["content-security-policy"] == PAGE_POLICY
    assert "default-src 'none'" in PAGE_POLICY


@pytest.mark.parametrize("name", list(FILES))
def test_every_file_of_the_page_is_served(served: Served, name: str) -> None:
    result = served.ask("GET", f"/page/{name}")

    assert result.content == FILES[name].body
    assert result.headers["content-type"] == FILES[name].media_type
    assert result.headers["cache-control"] == "no-cache"


def test_what_a_browser_has_is_not_sent_again(served: Served) -> None:
    etag = served.ask("GET", "/").headers["etag"]

    again = served.ask("GET", "/", headers={"if-none-match": f'"other", W/{etag}'})
    other = served.ask("GET", "/", headers={"if-none-match": '"other"'})

    assert (again.status_code, again.content) == (304, b"")
    assert other.status_code == 200


@pytest.mark.parametrize("name", ["none.js", "__init__.py", "..%2f__init__.py"])
def test_what_is_no_file_of_the_page_is_404(served: Served, name: str) -> None:
    result = served.ask("GET", f"/page/{name}")

    assert result.status_code == 404
    assert result.json() == {"error": "Not Found"}
