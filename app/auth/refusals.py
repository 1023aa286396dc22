"""Why somebody is not let in."""


class Unauthorized(Exception):
    """The credentials do not prove who is asking."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Forbidden(Exception):
    """It is known who is asking, and that they may not."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
