"""What each test of faults is given."""

import pytest

from faults import Control


@pytest.fixture
def control():
    one = Control()
    yield one
    one.close()
