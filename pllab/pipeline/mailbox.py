"""Where the packets for one lane wait until it takes them."""

import threading

from pllab.pipeline.compute import Upstream
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import Name


class Mailbox:
    """A slot for each packet; other lanes put, one lane takes.

    Example: `put(name, packet)` never waits; `take(name)` waits until that packet is there, whatever came before.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._slots: dict[Name, Packet] = {}
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, name: Name, packet: Packet) -> None:
        """Leave a packet."""
        with self._changed:
            self._slots[name] = packet
            self._changed.notify()

    def fail(self, error: BaseException) -> None:
        """From now on nothing more comes: whoever waits, or begins to, is told why."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify()

    def check(self) -> None:
        """Refuse to go on without the other lanes, for an action that takes no packet.

        Raises:
            Upstream: another lane failed.
        """
        if self._failure is not None:
            raise Upstream(f"nothing more is wanted: {self._failure}") from self._failure

    def take(self, name: Name) -> Packet:
        """Wait for a packet and take it out.

        Raises:
            Upstream: another lane failed.
            TimeoutError: it did not come in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: name in self._slots or self._failure is not None, self._timeout_s)
            if self._failure is not None:
                raise Upstream(f"the {name} never came: {self._failure}") from self._failure
            if name not in self._slots:
                late = f"the {name} did not come within {self._timeout_s:g} s"
                raise TimeoutError(f"{late}; give a slower stage more time with timeout_s=")
            return self._slots.pop(name)
