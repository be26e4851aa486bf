"""Programs that run until they are told to stop: each a process group with a log, started again when it dies."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contrastive.errors import UserError
from flows.serve import watcher
from flows.serve.ports import answers
from flows.terminal import say

CHECKOUT = Path(__file__).parents[2]
POOL = "ablate"  # of Prefect, whose worker runs our deployments
PATIENCE = 120.0  # seconds until a service must answer; the first start makes a database
GRACE = 20.0  # seconds that a service has to stop by itself
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead service is started again, doubled each time
STEADY = 60.0  # one that has run for so long begins with the first pause again


@dataclass
class Service:
    name: str
    command: tuple[str, ...]
    log: Path
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    pause: float = FIRST_PAUSE


class Services:
    """What `ablate up` has started, in order."""

    def __init__(self, home: Path, environment: dict[str, str]):
        self.home, self.environment, self.all = home, environment, list[Service]()
        (home / "logs").mkdir(parents=True, exist_ok=True)
        watch = [sys.executable, str(Path(watcher.__file__)), watcher.service_mark(home)]
        self.watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def start(self, name: str, *command: str) -> Service:
        log = self.home / "logs" / f"{name}.log"
        service = Service(name, command, log, self._process(name, command, log))
        self.all.append(service)
        self._tell_watcher()
        return service

    def again(self, service: Service) -> None:
        """Start a dead service once more, after a pause that grows while it keeps dying."""
        service.pause = FIRST_PAUSE if time.monotonic() - service.began > STEADY else service.pause
        code = service.process.returncode
        say(f"{service.name} ended with code {code}, and is started again; its log is {service.log}")
        time.sleep(service.pause)
        service.pause = min(2 * service.pause, LONGEST_PAUSE)
        service.process, service.began = self._process(service.name, service.command, service.log), time.monotonic()
        self._tell_watcher()

    def clear(self, service: Service) -> None:
        """End what a service left behind: workers that keep a server's port, flow runs that nobody watches."""
        left = watcher.marked_processes(watcher.service_mark(self.home, service.name))
        watcher.send_signal(left, [service.process.pid], signal.SIGKILL)

    def stop(self) -> None:
        """Ask each to end, the last first, and end what has not after a while."""
        for service in reversed(self.all):
            watcher.send_signal([], [service.process.pid], signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.process.wait(GRACE)
            self.clear(service)
            service.process.wait()
        self.watcher.kill()  # nothing is left for it to do
        self.watcher.wait()

    def _process(self, name: str, command: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
        with open(log, "ab") as output:
            return subprocess.Popen(
                [program(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=CHECKOUT,
                env=self.environment | {watcher.VARIABLE: watcher.service_mark(self.home, name)},
                start_new_session=True,
                preexec_fn=default_signals,
            )

    def _tell_watcher(self) -> None:
        print(*(service.process.pid for service in self.all), file=self.watcher.stdin, flush=True)


@contextlib.contextmanager
def services(home: Path, environment: dict[str, str]) -> Iterator[Services]:
    """Whatever is started inside is stopped at the end."""
    stop_leftovers(home)
    started = Services(home, environment)
    try:
        yield started
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave half of them behind
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        started.stop()


def stop_leftovers(home: Path) -> bool:
    """End what an `ablate up` of this home left that was killed together with its watcher; whether there was any."""
    return watcher.stop_marked(watcher.service_mark(home))


def wait_for_service(url: str, service: Service) -> None:
    deadline = time.monotonic() + PATIENCE
    while not answers(url):
        if (code := service.process.poll()) is not None:
            raise UserError(f"{service.name} ended with code {code} before it answered; its log is {service.log}")
        if time.monotonic() > deadline:
            raise UserError(f"{service.name} did not answer at {url} for {PATIENCE:.0f} s; its log is {service.log}")
        time.sleep(0.2)


def program(name: str) -> str:
    return str(Path(sys.executable).parent / name)  # of this environment, active or not


def default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
