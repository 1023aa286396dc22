"""The limit to compare with: a bare Sanic app whose one POST handler answers constant bytes."""

import sys

from sanic import HTTPResponse, Request, Sanic

app = Sanic("hello", configure_logging=False)


@app.post("/hello")
async def hello(_: Request) -> HTTPResponse:
    return HTTPResponse(b'{"ok":true}', content_type="application/json")


if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), single_process=True, access_log=False, motd=False)
