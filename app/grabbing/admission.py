"""What turns a grab away before it costs anything: switches, a full backlog, Redis in trouble."""

from app.control.switches import CREATIONS, GRABS, Switches, packet_switch
from app.grabbing.backlog import BacklogGate
from app.grabbing.breaker import Breaker
from app.grabbing.coalescer import GrabUnavailable, Overloaded
from lua.ids import PacketId, is_on_mysql


class SwitchedOff(Exception):
    """An operator has turned this off for a while."""


class Admission:
    def __init__(self, switches: Switches, breaker: Breaker, backlog: BacklogGate) -> None:
        self._switches = switches
        self._breaker = breaker
        self._backlog = backlog

    @property
    def redis_answers(self) -> bool:
        return not self._breaker.is_open

    async def look_at_backlog(self) -> None:
        """Unless Redis is in trouble: one probe at a time is then all that it is asked."""
        if self.redis_answers:
            await self._backlog.refresh()

    def check_switches(self, packet_id: PacketId) -> None:
        """Raises SwitchedOff."""
        off = self._switches.off
        if off and (GRABS in off or packet_switch(packet_id) in off):
            raise SwitchedOff

    def check_stores(self, packet_id: PacketId) -> None:
        """Raises GrabUnavailable, Overloaded. A packet in MySQL needs neither Redis nor outbox."""
        if is_on_mysql(packet_id):
            return
        if self._breaker.is_open:
            raise GrabUnavailable(None)
        if self._backlog.is_shut:
            raise Overloaded

    def check_creation(self) -> None:
        """Raises SwitchedOff."""
        if CREATIONS in self._switches.off:
            raise SwitchedOff
