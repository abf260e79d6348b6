"""Clients of a service, in a process that does nothing else: ``clients.py address clients seconds reports.json``."""

import json
import sys
import threading
import time
from pathlib import Path

import requests


def main() -> None:
    """Each client searches without a pause; prints milliseconds of each search, and how many failed."""
    address, clients, lasting_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    asked = json.loads(Path(sys.argv[4]).read_text())
    waits: list[float] = []
    failed: list[str] = []
    begun = time.perf_counter()

    def client(number: int) -> None:
        session, place = requests.Session(), number
        while time.perf_counter() - begun < lasting_s:
            start = time.perf_counter()
            answer = session.post(f"{address}/api/search", json=asked[place % len(asked)], timeout=60)
            if answer.ok:
                waits.append(1000 * (time.perf_counter() - start))
            else:
                failed.append(answer.text)
            place += clients

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"waits": waits, "failed": len(failed)}))


if __name__ == "__main__":
    main()
