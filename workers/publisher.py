"""Publishes claims to RabbitMQ: persistent, mandatory, confirmed."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractExchange

from workers.amqp import Session, session
from workers.topology import CLAIMS_ROUTING_KEY, declare_claims_exchange

CONFIRM_TIMEOUT_S: Final = 10.0


class AmqpPublisher:
    """A Publisher over one channel, opened at the first message and again after a failure."""

    def __init__(self, url: str, *, confirm_timeout_s: float = CONFIRM_TIMEOUT_S) -> None:
        self._url = url
        self._confirm_timeout_s = confirm_timeout_s
        self._open: AsyncExitStack | None = None
        self._session: Session | None = None
        self._exchange: AbstractExchange | None = None

    async def publish(self, bodies: Sequence[bytes]) -> None:
        """Return when all are confirmed; raise when one was not, or was unroutable."""
        try:
            exchange = await self._connected()
            async with asyncio.timeout(self._confirm_timeout_s), asyncio.TaskGroup() as confirms:
                for body in bodies:
                    message = Message(body, delivery_mode=DeliveryMode.PERSISTENT)
                    confirms.create_task(
                        exchange.publish(message, CLAIMS_ROUTING_KEY, mandatory=True)
                    )
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            await opened.aclose()

    async def _connected(self) -> AbstractExchange:
        if self._open is not None and self._session is not None and not self._session.lost.is_set():
            assert self._exchange is not None
            return self._exchange
        await self.close()
        async with AsyncExitStack() as opening:
            self._session = await opening.enter_async_context(session(self._url))
            async with asyncio.timeout(self._confirm_timeout_s):
                self._exchange = await declare_claims_exchange(self._session.channel)
            self._open = opening.pop_all()
        return self._exchange
