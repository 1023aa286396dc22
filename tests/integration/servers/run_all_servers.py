"""A test run in miniature: start every server, say so, and wait to be ended from outside."""

import signal
import sys
import threading
from pathlib import Path

from tests.servers.chosen import start_database
from tests.servers.process import ServerProcess
from tests.servers.rabbitmq import start_rabbitmq
from tests.servers.redis import start_redis, start_valkey


def main(directory: Path) -> None:
    servers: list[ServerProcess] = []

    def start_quick_ones() -> None:
        servers.append(start_redis(directory / "redis"))
        servers.append(start_valkey(directory / "valkey"))
        servers.append(start_database(directory / "database"))

    # A thread that ends long before the process does: the servers must not notice.
    thread = threading.Thread(target=start_quick_ones)
    thread.start()
    thread.join()
    servers.append(start_rabbitmq(directory / "rabbitmq"))
    for server in servers:
        server.wait_ready()
    print(*(pid for server in servers for pid in server.pids), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
