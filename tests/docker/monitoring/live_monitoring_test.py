"""What is monitored, beside what a live server exports and does.

Usage: live_monitoring_test.py STUBS_DIRECTORY
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import grpc
import yaml

sys.path.insert(0, sys.argv.pop(1))

from tensorkv.v1 import data_pb2
from tensorkv.v1 import membership_pb2
from tensorkv.v1 import service_pb2_grpc
from tensorkv.v1 import tensor_pb2

MONITORING = pathlib.Path("docker/monitoring")
SERVER = "service/tensorkv-server"
GPU_SERVER = "tests/docker/monitoring/failing_gpu_server"
TIMEOUT_S = 60
BUDGET_BYTES = 8 << 20
# What Prometheus makes itself.
OF_PROMETHEUS = {"up", "ALERTS"}
SUFFIXES = {
    "counter": [""],
    "gauge": [""],
    "summary": ["_sum", "_count"],
    "histogram": ["_bucket", "_sum", "_count"],
}
NO_METRICS = {"and", "or", "unless", "bool", "offset"}


def await_that(read, is_expected, what):
    """Prometheus tells nobody what it finds: it has to be asked again."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_expected(value := read()):
        if time.monotonic() > deadline:
            raise AssertionError("expected %s, got %s" % (what, value))
        time.sleep(0.05)


def get(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:
        return reply.read().decode()


def names_in(query):
    """The metrics that a query in PromQL names."""
    query = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*"
                   r"\([^)]*\)", " ", query)
    query = re.sub(r'"[^"]*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", query)
    names = re.findall(r"(?<![\w.:])[a-zA-Z_:][\w:]*(?!\w*\s*\()", query)
    return set(names) - NO_METRICS


def rules():
    return [rule for file in sorted(MONITORING.glob("*.rules.yml"))
            for group in yaml.safe_load(file.read_text())["groups"]
            for rule in group["rules"]]


def dashboard():
    return json.loads(
        (MONITORING / "grafana/dashboards/tensorkv.json").read_text())


def dashboard_queries(board):
    """The queries of a dashboard, with its variables filled in."""
    queries = [target["expr"] for panel in board["panels"]
               for target in panel.get("targets", [])]
    queries += [each["expr"] for each in board["annotations"]["list"]]
    for variable in board["templating"]["list"]:
        values_of = re.fullmatch(r"label_values\((.*), \w+\)",
                                 variable.get("definition", ""))
        queries += values_of.groups() if values_of else []
    return [query.replace("$__rate_interval", "1m")
            .replace("$instance", ".*").replace("$namespace", ".*")
            for query in queries]


def documented():
    """The metrics in docs/operations.md: name -> whether only GPUs have it."""
    text = pathlib.Path("docs/operations.md").read_text()
    section = text.split("## Metrics of the server\n")[1].split("\n## ")[0]
    return {name: "GPU only" in row
            for row in re.findall(r"^\| `.*", section, re.M)
            for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def in_clusters():
    """The metrics in docs/cluster.md, which servers of clusters have."""
    text = pathlib.Path("docs/cluster.md").read_text()
    return {name for row in re.findall(r"^\| `tensorkv_cluster.*", text, re.M)
            for name in re.findall(r"`(\w+)`", row.split("|")[1])}


class Server:
    """A server; one that is started again has the same port for metrics."""

    def __init__(self, metrics="127.0.0.1:0", flags=()):
        self.checkpoints = pathlib.Path(
            tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]))
        self.start(
            SERVER, "--device=cpu", "--listen=127.0.0.1:0",
            "--metrics_listen=" + metrics, "--budget=%d" % BUDGET_BYTES,
            "--checkpoint_dir=%s" % self.checkpoints, *flags)

    def start(self, *arguments):
        self.process = subprocess.Popen(
            arguments, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            ready = re.search(r" ready listen=(\S+) metrics=(\S+)", line)
            if ready:
                self.address, self.metrics = ready.groups()
                return
        raise AssertionError("the server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def cli(self, *arguments):
        return subprocess.Popen(
            ["client/cli/tensorkv", "--target=" + self.address, *arguments],
            stdout=subprocess.DEVNULL)

    def run(self, *arguments):
        process = self.cli(*arguments)
        assert process.wait() == 0, arguments

    def families(self):
        """What it exports: name -> type."""
        return dict(re.findall(r"^# TYPE (\w+) (\w+)$", self.page(), re.M))

    def page(self):
        return get("http://%s/metrics" % self.metrics)

    def make_traffic(self):
        self.run("init", "w", "--shape=8", "--fill=1")
        self.run("push", "w", "--fill=1")
        self.run("pull", "w")
        self.run("ns", "create", "guarded", "--max_norm=1")
        self.run("--namespace=guarded", "init", "w", "--shape=8", "--fill=1")
        self.run("--namespace=guarded", "push", "w", "--fill=8")
        self.run("checkpoint", "save", "first")
        wait = self.cli("pull", "k", "--wait_for_keys")
        waiting = 'tensorkv_waiting{namespace="default",reason="key"} 1'
        await_that(self.page, lambda page: waiting in page, waiting)
        self.run("init", "k", "--shape=8", "--fill=1")
        assert wait.wait() == 0


class GpuServer(Server):
    """A server with a GPU, made of host threads."""

    def __init__(self, metrics="127.0.0.1:0"):
        self.start(GPU_SERVER, metrics)

    def fail_gpu(self):
        self.process.send_signal(signal.SIGUSR1)


class Prometheus:
    """Debian's, with our rules, on one server."""

    def __init__(self, target):
        folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]))
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = {key: "250ms" for key in config["global"]}
        config["rule_files"] = [str((MONITORING / file).resolve())
                                for file in config["rule_files"]]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=%s" % file,
             "--storage.tsdb.path=%s" % (folder / "data"),
             "--web.listen-address=127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        log = ""
        address = None
        # The two lines come in any order.
        while not address or "Server is ready" not in log:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError("Prometheus did not start: " + log)
            log += line
            address = re.search(r'msg="Listening on" address=(\S+)', log)
        self.address = address.group(1)
        # So that it never waits for a reader of its log.
        self.reader = subprocess.Popen(
            ["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.reader.wait()

    def query(self, query):
        reply = json.loads(get("http://%s/api/v1/query?%s" % (
            self.address, urllib.parse.urlencode({"query": query}))))
        return reply["data"]["result"]

    def alerts(self):
        """Those that fire, or will when enough time has passed."""
        return {each["metric"]["alertname"] for each in self.query("ALERTS")}

    def await_alerts(self, *expected):
        expected = set("TensorKV" + name for name in expected)
        await_that(self.alerts, lambda alerts: alerts == expected, expected)

    def await_rules(self):
        """Returns when the rules have seen what the server exports."""
        self.await_result(
            "count_over_time(instance:tensorkv_budget_used:ratio[1m]) > 4")

    def await_result(self, query):
        await_that(lambda: self.query(query), bool, query)


def contribution(worker):
    request = data_pb2.PushPullRequest()
    request.push.namespace = "group"
    request.push.step = 1
    request.push.worker.CopyFrom(worker)
    request.push.entries.add(key="w", tensor=tensor_pb2.Tensor(
        dtype=tensor_pb2.DTYPE_F32, shape=[1], data=bytes(4)))
    return request


class MonitoringTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(lambda: cls.server.kill())
        cls.server.make_traffic()
        cls.prometheus = Prometheus(cls.server.metrics)
        cls.addClassCleanup(cls.prometheus.stop)

    def test_documentation_names_what_is_exported(self):
        on_gpus = {name for name, gpu in documented().items() if gpu}
        # There is no GPU to ask.
        sources = "".join(path.read_text() for path in
                          pathlib.Path("service").glob("*/*.cc"))

        self.assertEqual(set(documented()) - on_gpus,
                         set(self.server.families()))
        self.assertEqual([], [name for name in on_gpus
                              if '"%s"' % name not in sources])

    def test_documentation_names_every_alert(self):
        text = pathlib.Path("docs/operations.md").read_text()
        self.assertEqual(
            {rule["alert"] for rule in rules() if "alert" in rule},
            set(re.findall(r"^\| `(TensorKV\w+)`", text, re.M)))

    def test_every_alert_has_a_unit_test_of_its_firing_and_its_silence(self):
        file = pathlib.Path("tests/docker/monitoring/alerts_test.yml")
        cases = [(case["alertname"], bool(case["exp_alerts"]))
                 for test in yaml.safe_load(file.read_text())["tests"]
                 for case in test.get("alert_rule_test", [])]
        self.assertEqual(
            set(cases), {(rule["alert"], fires) for rule in rules()
                         if "alert" in rule for fires in (False, True)})

    def test_queries_name_only_what_is_exported(self):
        exported = {name + suffix
                    for name, kind in self.server.families().items()
                    for suffix in SUFFIXES[kind]}
        exported |= {name + suffix for name, gpu in documented().items()
                     if gpu for suffix in ("", "_sum", "_count")}
        exported |= in_clusters()
        exported |= {rule.get("record") for rule in rules()}
        queries = [rule["expr"] for rule in rules()]
        queries += dashboard_queries(dashboard())

        for query in queries:
            self.assertTrue(names_in(query), query)
            self.assertEqual(
                names_in(query) - exported - OF_PROMETHEUS, set(), query)

    def test_queries_of_the_dashboard_find_something(self):
        self.prometheus.await_rules()
        on_gpus = {name for name, gpu in documented().items() if gpu}
        on_gpus.add("instance_device:tensorkv_budget_used:ratio")

        for query in dashboard_queries(dashboard()):
            # What is compared is there, whatever comes of it.
            query = re.sub(r" (>|==) 0", "", query)
            plain = {re.sub("_(sum|count)$", "", name)
                     for name in names_in(query)}
            if not plain & (on_gpus | {"ALERTS"}):
                with self.subTest(query):
                    self.prometheus.await_result(query)

    def test_panels_lie_side_by_side(self):
        cells = [(x, y) for panel in dashboard()["panels"]
                 for at in [panel["gridPos"]]
                 for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])]
        self.assertEqual(len(cells), len(set(cells)))
        self.assertLess(max(x for x, _ in cells), 24)


class AlertsTest(unittest.TestCase):

    def test_alerts_tell_what_happens_and_nothing_else(self):
        server = Server()
        self.addCleanup(lambda: server.kill())
        prometheus = Prometheus(server.metrics)
        self.addCleanup(prometheus.stop)
        prometheus.await_rules()
        prometheus.await_alerts()

        server.run("ns", "create", "small", "--budget=64KiB")
        server.run("--namespace=small", "init", "w", "--shape=15000",
                   "--fill=1")
        prometheus.await_alerts("NamespaceBudgetNearlyFull")
        server.run("--namespace=small", "rm", "w")
        prometheus.await_alerts()

        server.run("init", "w", "--shape=1930000", "--fill=1")
        prometheus.await_alerts("BudgetNearlyFull")
        server.run("rm", "w")
        prometheus.await_alerts()

        server.kill()
        prometheus.await_alerts("Down")
        server = Server(metrics=server.metrics,
                        flags=["--checkpoint_interval=1s"])
        prometheus.await_alerts("Restarted")

        self.forbid_checkpoints(server)
        prometheus.await_alerts("Restarted", "CheckpointOverdue")
        self.allow_checkpoints(server)
        prometheus.await_alerts("Restarted")

        self.lose_workers(server)
        prometheus.await_alerts("Restarted", "WorkerLost", "RoundsFailing")

    def test_a_device_that_fails_is_told(self):
        server = GpuServer()
        self.addCleanup(server.kill)
        prometheus = Prometheus(server.metrics)
        self.addCleanup(prometheus.stop)
        prometheus.await_rules()
        prometheus.await_alerts()

        server.fail_gpu()

        prometheus.await_alerts("DeviceFailed")

    def forbid_checkpoints(self, server):
        """No directory can be made where a file is, whoever tries."""
        server.checkpoints.rename(server.checkpoints.with_suffix(".away"))
        server.checkpoints.touch()

    def allow_checkpoints(self, server):
        server.checkpoints.unlink()
        server.checkpoints.with_suffix(".away").rename(server.checkpoints)

    def lose_workers(self, server):
        """One contributes and waits for the other; neither renews its lease."""
        server.run("ns", "create", "group", "--mode=sync", "--workers=2")
        server.run("--namespace=group", "init", "w", "--shape=1", "--fill=1")
        with grpc.insecure_channel(server.address) as channel:
            data = service_pb2_grpc.DataStub(channel)
            membership = service_pb2_grpc.MembershipStub(channel)
            first, _ = [
                membership.Join(membership_pb2.JoinRequest(
                    namespace="group", worker_name=name, lease={"seconds": 1}))
                for name in ("first", "second")]
            with self.assertRaises(grpc.RpcError):
                data.PushPull(contribution(first.worker))


if __name__ == "__main__":
    unittest.main(verbosity=2)
