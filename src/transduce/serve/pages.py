"""The page's files as answers: with their kinds, a policy that lets nothing in from elsewhere.

A browser keeps them, and asks each time whether they are still the same.
"""

import hashlib
from collections.abc import Mapping, Sequence

from transduce.serve.answers import Reply
from transduce.serve.call import Call, Operation
from transduce.serve.page import FILES, INDEX, POLICY, PageFile
from transduce.serve.refusal import Refusal

PATH = "/page/{name}"


class Pages:
    """The handlers of the page."""

    def __init__(self, files: Mapping[str, PageFile] = FILES) -> None:
        """Make an answer of each file."""
        self._answers = {name: _answer(file) for name, file in files.items()}

    def operations(self) -> Sequence[Operation]:
        """What can be asked; it is for browsers, and not in the document."""
        return (
            Operation(
                path="/",
                verb="GET",
                name="page",
                about="The page.",
                handler=self.index,
                answer=None,
                kind="text/html; charset=utf-8",
            ),
            Operation(
                path=PATH,
                verb="GET",
                name="page_file",
                about="A file of the page.",
                handler=self.file,
                answer=None,
                kind="text/plain",
                errors=(404, 500),
            ),
        )

    async def index(self, call: Call) -> Reply:
        """Answer /."""
        return _unless_known(call, self._answers[INDEX])

    async def file(self, call: Call) -> Reply:
        """Answer /page/<name>."""
        found = self._answers.get(call.path("name"))
        if found is None:
            raise Refusal(404, "Not Found")
        return _unless_known(call, found)


def _answer(file: PageFile) -> Reply:
    return Reply(
        file.content,
        kind=file.content_type,
        headers=(
            ("etag", f'"{hashlib.sha256(file.content).hexdigest()[:32]}"'),
            ("cache-control", "no-cache"),
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ),
    )


def _unless_known(call: Call, reply: Reply) -> Reply:
    """The answer, or none where the browser has it already."""
    (_, etag), *_ = reply.headers
    known = [one.strip().removeprefix("W/") for one in call.header(b"if-none-match").split(",")]
    return reply._replace(body=b"", status=304) if etag in known else reply
