from ._core import Result as Result
from ._errors import Limited as Limited
from ._errors import SluiceError as SluiceError
from ._limiter import AsyncLimiter as AsyncLimiter
from ._limiter import Limiter as Limiter
from ._limiter import forget as forget

__version__: str
