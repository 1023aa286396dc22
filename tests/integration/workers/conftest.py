"""The service without HTTP, and a RabbitMQ that holds no queue of an earlier test."""

import pytest

from app.services import Services
from tests.integration.workers.broker import Broker
from tests.integration.workers.lab import Lab


@pytest.fixture
def lab(services: Services, broker: Broker) -> Lab:
    return Lab(services, broker)
