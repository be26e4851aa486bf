"""`ablate up` for real: three services on free ports, a home of its own, a password, nothing left behind."""

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from playwright.sync_api import BrowserContext

import tasks
from flows.serve import up as services
from flows.serve.servers import PORTS, answers, any_free_port, free_port
from tests.asked import ask, auth_of
from tests.browser import opened
from tests.flows.conftest import ABLATE, CHECKOUT, ablate
from tests.waiting import alive, soon

pytestmark = pytest.mark.full
SERVICES = {"server": "prefect", "mlflow": "mlflow", "worker": "prefect"}  # a word of each command line → its program


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "ABLATE_HOME": str(tmp_path_factory.mktemp("home")),
        "ABLATE_PREFECT_PORT": str(any_free_port()),
        "ABLATE_MLFLOW_PORT": str(any_free_port()),
    }


@pytest.fixture(scope="module")
def up(settings: dict[str, str], empty_store: Path, empty_prefect: Path) -> Iterator[subprocess.Popen[str]]:
    home = Path(settings["ABLATE_HOME"])
    (home / ".prefect").mkdir()
    shutil.copy(empty_prefect, home / ".prefect")
    shutil.copy(empty_store, home / "mlflow.db")
    other = ("MLFLOW_TRACKING_URI", "PREFECT_API_DATABASE_CONNECTION_URL", *tasks.QUIET)
    environment = {name: value for name, value in os.environ.items() if name not in other} | settings
    environment["PYTHONPATH"] = str(CHECKOUT)
    process = subprocess.Popen([*ABLATE, "up"], cwd=home, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(6)]
    assert printed[-1].startswith("Ctrl-C stops everything"), printed
    assert f"sign in   user ablate, password {auth_of(home).removeprefix('ablate:')} " in printed[2]
    yield process
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def api(up: object, settings: dict[str, str]) -> str:
    return f"http://127.0.0.1:{settings['ABLATE_PREFECT_PORT']}/api"


def started(up: subprocess.Popen[str]) -> dict[str, psutil.Process]:
    """Service → its process."""
    found = {}
    for child in psutil.Process(up.pid).children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            found |= {word: child for word in SERVICES if word in map(os.path.basename, child.cmdline())}
    return found


@pytest.fixture(scope="module")
def auth(up: object, settings: dict[str, str]) -> str:
    return auth_of(Path(settings["ABLATE_HOME"]))


def working(api: str, auth: str) -> bool:
    return any(one["status"] == "ONLINE" for one in ask(f"{api}/work_pools/ablate/workers/filter", {}, auth))


def test_everything_is_served_on_loopback_and_deployed(up, api, auth, settings):
    """It tells nobody else what it does."""
    assert answers(f"http://127.0.0.1:{settings['ABLATE_MLFLOW_PORT']}/health") and answers(f"{api}/health")
    declared = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]
    deployed = ask(f"{api}/deployments/filter", {}, auth)
    assert sorted(one["name"] for one in deployed) == sorted(one["name"] for one in declared)
    assert {one["work_pool_name"] for one in deployed} == {"ablate"}
    (nightly,) = [schedule for one in deployed for schedule in one["schedules"]]
    assert nightly["schedule"]["cron"] == "0 2 * * *" and not nightly["active"]
    soon(
        lambda: working(api, auth), otherwise=(Path(settings["ABLATE_HOME"]) / "logs" / "prefect-worker.log").read_text
    )
    children = psutil.Process(up.pid).children(recursive=True)
    listening = {at.laddr.ip for child in children for at in child.net_connections("tcp") if at.status == "LISTEN"}
    assert listening == {"127.0.0.1"}
    for child in children:
        told = child.environ()
        assert {name: told.get(name) for name in tasks.QUIET} == tasks.QUIET, child.cmdline()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a page that belongs to somebody else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "index.html").write_text("<title>harmless</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


ATTACK = """async ([prefect, mlflow]) => {
  const asked = (url, options) => fetch(url, {credentials: "include", ...options}).then(
    answer => answer.ok ? "done" : answer.status, () => "refused");
  const post = (url, name, type, mode) => asked(url, {
    method: "POST", mode, headers: {"content-type": type}, body: JSON.stringify({name})});
  const socket = new Promise(done => {
    const opened = new WebSocket(prefect.replace("http", "ws") + "/events/in");
    opened.onopen = () => { opened.send("{}"); opened.onmessage = () => done("open") };
    opened.onerror = opened.onclose = () => done("refused")});
  return [
    await post(prefect + "/flows/", "evil-json", "application/json", "cors"),
    await post(prefect + "/flows/", "evil-form", "text/plain", "no-cors"),
    await post(mlflow + "/api/2.0/mlflow/experiments/create", "evil-json", "application/json", "cors"),
    await post(mlflow + "/api/2.0/mlflow/experiments/create", "evil-form", "text/plain", "no-cors"),
    await asked(prefect + "/admin/version", {}), await asked(mlflow + "/api/2.0/mlflow/experiments/get", {}),
    await socket]}"""


@pytest.fixture
def signed_in(up, auth, settings) -> Iterator[BrowserContext]:
    """A browser whose user has signed in at both servers, and has looked at their pages."""
    user, _, password = auth.partition(":")
    mlflow = f"http://127.0.0.1:{settings['ABLATE_MLFLOW_PORT']}"
    with opened("--host-resolver-rules=MAP *.test 127.0.0.1, MAP evil.test 127.0.0.1") as browser:
        context = browser.new_context(http_credentials={"username": user, "password": password, "origin": mlflow})
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{settings['ABLATE_PREFECT_PORT']}/deployments")
        page.locator("input").first.fill(auth)
        page.keyboard.press("Enter")
        page.get_by_text("imdb-deberta").first.wait_for()
        page.goto(f"{mlflow}/#/experiments")
        page.get_by_text("Default").first.wait_for()
        yield context


@pytest.mark.parametrize("site", ["http://evil.test:{elsewhere}", "http://10.evil.test:{prefect}"])
def test_a_page_of_another_site_can_do_nothing(site, signed_in, api, auth, settings, elsewhere):
    """In a real browser that has signed in: on another name, and on one that was made to mean this machine."""
    prefect, mlflow = settings["ABLATE_PREFECT_PORT"], settings["ABLATE_MLFLOW_PORT"]
    page = signed_in.new_page()
    page.goto(site.format(elsewhere=elsewhere, prefect=prefect))
    for name in ("10.evil.test", "127.0.0.1"):
        done = page.evaluate(ATTACK, [f"http://{name}:{prefect}/api", f"http://{name}:{mlflow}"])
        assert set(done) <= {"refused", 401, 403, 0}, done  # 0: an answer that the page may not read
    flows = [flow["name"] for flow in ask(f"{api}/flows/filter", {}, auth)]
    held = ask(f"http://127.0.0.1:{mlflow}/api/2.0/mlflow/experiments/search", {"max_results": 100}, auth)
    assert not [name for name in [*flows, *(one["name"] for one in held["experiments"])] if "evil" in name]


def test_whoever_has_no_password_is_refused_and_no_page_can_frame_theirs(up, settings):
    """With curl, as another user of this machine would; no file of the home tells him the password."""
    home = Path(settings["ABLATE_HOME"])
    for variable, path in (("ABLATE_PREFECT_PORT", "/api/flows/filter"), ("ABLATE_MLFLOW_PORT", "/")):
        address = f"http://127.0.0.1:{settings[variable]}{path}"
        for given in ((), ("--user", "ablate:guessed")):
            command = ["curl", "--silent", "--output", os.devnull, "--write-out", "%{http_code}", *given, address]
            method = ["--request", "POST"] if "filter" in path else []
            assert subprocess.run([*command, *method], capture_output=True, text=True).stdout == "401", (address, given)
    for path in (home / ".access").iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.name == "users.db", path  # which has a hash of it
    with urllib.request.urlopen(f"http://127.0.0.1:{settings['ABLATE_MLFLOW_PORT']}/health") as answer:
        assert answer.headers["x-frame-options"].upper() in ("SAMEORIGIN", "DENY")


def test_a_cut_off_run_is_given_up(up, api, auth):
    """A run whose process is gone holds the only slot of its deployment."""

    def slots() -> int:
        return sum(limit["active_slots"] for limit in ask(f"{api}/v2/concurrency_limits/filter", {}, auth))

    deployment = ask(f"{api}/deployments/filter", {}, auth)[0]["id"]
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}  # no worker takes it
    run = ask(f"{api}/deployments/{deployment}/create_flow_run", {"state": later}, auth)["id"]
    ask(f"{api}/flow_runs/{run}/set_state", {"state": {"type": "PENDING"}}, auth)
    assert slots() == 1
    asked = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": auth}
    subprocess.run(services.SETUP, cwd=CHECKOUT, env=os.environ | asked, check=True)
    (found,) = ask(f"{api}/flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}}, auth)
    assert found["state_type"] == "CRASHED" and slots() == 0


def test_whatever_is_killed_comes_back_and_down_stops_it_all(up, api, auth, settings, monkeypatch):
    before = started(up)
    children = psutil.Process(up.pid).children(recursive=True)
    assert set(before) == set(SERVICES)
    for name in SERVICES:
        before[name].kill()

    def are_back() -> bool:
        now = started(up)
        return set(now) == set(SERVICES) and not {now[name].pid for name in now} & {one.pid for one in before.values()}

    soon(are_back, otherwise=lambda: started(up))
    for url in (api, f"http://127.0.0.1:{settings['ABLATE_MLFLOW_PORT']}"):
        soon(lambda url=url: answers(f"{url}/health"))
    soon(lambda: working(api, auth))
    children += psutil.Process(up.pid).children(recursive=True)
    assert ablate(settings, "down").stdout == "stopped\n"
    assert up.wait(60) == 0 and not alive(children)
    for service in ("prefect", "mlflow"):
        monkeypatch.setenv(PORTS[service][0], settings[PORTS[service][0]])
        free_port(service)
    assert "nothing runs for" in ablate(settings, "down").stdout
