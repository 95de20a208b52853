"""What can go wrong. A denial is no error: it is a Result."""


class SluiceError(Exception):
    """A call that failed: nothing was charged.

    ``code`` is for programs: ``bad-limit``, ``bad-key``, ``bad-argument``, ``not-found``, ``busy`` (a process that
    shares the store is stopped), ``full`` (255 processes have it open), ``bad-store``, ``system``, ``bad-policy``,
    ``no-access``, ``away`` (a server can't be reached, or is late), ``protocol``, ``closed``. ``str(error)`` is the
    library's or the server's own word.
    """

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

    def __reduce__(self):
        return type(self), (self.code, str(self))


class Limited(Exception):
    """Raised by ``lease()`` where it is denied. ``result`` says until when."""

    def __init__(self, result):
        super().__init__(f"limited by {result.limit}: " + (
            f"try again in {result.retry_after} ms" if result.retry_after >= 0 else "the cost is above the quota"))
        self.result = result
