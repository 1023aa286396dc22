"""A 200 JSON answer whose head is known beforehand, for where every microsecond counts."""

from typing import Any, Final

from sanic import HTTPResponse
from sanic.compat import Header
from sanic.http.constants import Stage
from sanic.http.http1 import Http

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: keep-alive\r\n"
    b"content-type: application/json\r\ncache-control: no-store\r\n\r\n"
)


class PreparedResponse(HTTPResponse):
    """Sends head and body as one write, past Sanic's building and cleaning of each header.

    Measured, that is a tenth of a whole request. What needs more than this fixed head (a connection
    that closes, a client that waits for 100-continue) takes Sanic's ordinary way.
    """

    __slots__ = ()

    def __init__(self, body: bytes) -> None:
        # Sets what HTTPResponse.__init__ sets, with one header table in place of three.
        self.asgi = False
        self.body = body
        self.content_type = "application/json"
        self.stream = None
        self.status = 200
        self.headers = Header({"cache-control": "no-store"})
        self._cookies = None

    async def send(self, data: Any = None, end_stream: bool | None = None) -> None:
        stream = self.stream
        if (
            type(stream) is not Http
            or stream.stage is not Stage.HANDLER
            or not stream.keep_alive
            or stream.expecting_continue
        ):
            await super().send(data, end_stream)
            return
        body = self.body or b""
        stream.response_func = None  # type: ignore[assignment]  # as Http itself does
        await stream._send(_HEAD % len(body) + body)
        stream.stage = Stage.IDLE
