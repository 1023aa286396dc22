"""The service without HTTP, and a RabbitMQ that holds no queue of an earlier test."""

from collections.abc import AsyncIterator

import pytest

from app.services import Services
from tests.integration.workers.broker import Broker
from tests.integration.workers.lab import Lab
from tests.servers.rabbitmq import RabbitServer


@pytest.fixture
async def broker(rabbitmq_server: RabbitServer) -> AsyncIterator[Broker]:
    broker = Broker(rabbitmq_server)
    await broker.forget()
    yield broker
    await broker.forget()


@pytest.fixture
def lab(services: Services, broker: Broker) -> Lab:
    return Lab(services, broker)
