"""What the `redpacket` command tells the shell."""

from typing import Final

from asyncmy.errors import MySQLError
from redis.exceptions import RedisError
from tortoise.exceptions import BaseORMException

from app.config import BadSettings
from app.grabbing.redis_grabs import NotAnswering
from app.ledger.dead_letters import LetterUnknown
from app.packets.reading import PacketUnknown
from app.packets.splitting import SplittingBusy
from app.recovery.certificates import LeaseLost
from app.recovery.deployment import ForeignRedis
from app.recovery.in_flight import ClaimsUnderWay
from app.recovery.packets import RebuildFailed, RebuildSuperseded
from app.recovery.recovery import RecoveryElsewhere, RunChanged
from app.redis_client import UnsafeRedis
from app.store.database import DatabaseBusy

FINE: Final = 0
DIFFERENCE: Final = 1
COULD_NOT_RUN: Final = 2

# An error that ends a command with COULD_NOT_RUN: told in one line. Any other one is a bug.
CANNOT_RUN: Final = (
    *(BadSettings, UnsafeRedis, PacketUnknown, LetterUnknown, RedisError, BaseORMException),
    *(MySQLError, DatabaseBusy, SplittingBusy, OSError, ValueError),
    *(ClaimsUnderWay, ForeignRedis, NotAnswering, RecoveryElsewhere, RunChanged, LeaseLost),
    *(RebuildFailed, RebuildSuperseded),
)
