from ._core import Result

class SluiceError(Exception):
    code: str
    def __init__(self, code: str, text: str) -> None: ...

class Limited(Exception):
    result: Result
    def __init__(self, result: Result) -> None: ...
