"""A lab for money: what happens to it when things go wrong."""

import pytest

from app.services import Services
from tests.integration.money.lab import MoneyLab


@pytest.fixture
def lab(services: Services) -> MoneyLab:
    return MoneyLab(services)
