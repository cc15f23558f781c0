"""Counts the test cases of Bazel runs: count_tests.py DIRECTORY CONFIG...

DIRECTORY has for each CONFIG the events of its run, CONFIG.json, as Bazel's
--build_event_json_file writes them, and CONFIG.status with Bazel's exit status
where that was not 0. A file format.failure says that the sources are not
formatted, layers.failure which layers use what they must not.

Prints what failed with the last lines of its log, a line per configuration, and
last the totals as "N passed, N failed, N skipped". Ends with status 1 if
anything failed.
"""

import json
import pathlib
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

LOG_LINES = 12


class Count:
    """Test cases by outcome, with a line for each that failed."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def __str__(self):
        return "%d passed, %d failed, %d skipped" % (
            self.passed, len(self.failures), self.skipped)


def read_events(path):
    """The events of a run; a run that was cut short may end in half a line."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def count_cases(xml_path):
    """Counts the cases of one test target by the report that it wrote."""
    count = Count()
    for case in ElementTree.parse(xml_path).iter("testcase"):
        name = "%s.%s" % (case.get("classname", ""), case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            count.failures.append(name.strip("."))
        elif (case.find("skipped") is not None
              or case.get("result") == "skipped"
              or case.get("status") == "notrun"):
            count.skipped += 1
        else:
            count.passed += 1
    return count


def output_path(result, name):
    """Where a test result's test.xml or test.log is, or None."""
    for output in result.get("testActionOutput", []):
        if output["name"] == name:
            uri = urllib.parse.urlparse(output["uri"])
            path = pathlib.Path(urllib.parse.unquote(uri.path))
            return path if path.exists() else None
    return None


def end_of_log(result):
    """The last lines of a test's log: of a test that hung, where it hung."""
    path = output_path(result, "test.log")
    lines = path.read_text(errors="replace").splitlines() if path else []
    return "".join("\n    " + line for line in lines[-LOG_LINES:])


def count_target(result):
    """Counts one finished test target."""
    path = output_path(result, "test.xml")
    try:
        count = count_cases(path) if path else Count()
    except ElementTree.ParseError:
        count = Count()
    status = result.get("status", "NO_STATUS")
    # A leak, a crash or a timeout shows in the target's status only.
    if status != "PASSED":
        count.failures = count.failures or [status]
        count.failures[-1] += end_of_log(result)
    return count


def is_finished(event):
    """Whether a target was built, or is not for this machine."""
    if event.get("aborted", {}).get("reason") == "SKIPPED":
        return True
    return event.get("completed", {}).get("success", False)


def read_targets(directory, config):
    """Of each target and shard its count, and what was not built."""
    targets = {}
    unfinished = set()
    for event in read_events(directory / (config + ".json")):
        event_id = event.get("id", {})
        if "testResult" in event_id:
            # Of several attempts the last one counts.
            label = event_id["testResult"]["label"]
            shard = event_id["testResult"].get("shard", 1)
            targets[label, shard] = count_target(event.get("testResult", {}))
        elif "targetCompleted" in event_id:
            if not is_finished(event):
                unfinished.add(event_id["targetCompleted"]["label"])
    tested = {label for label, _ in targets}
    return targets, unfinished - tested


def count_configuration(directory, config):
    """Counts all targets of one run."""
    targets, unbuilt = read_targets(directory, config)
    total = Count()
    for (label, _), count in sorted(targets.items()):
        count.failures = [
            "%s %s %s" % (config, label, f) for f in count.failures]
        total.add(count)
    for label in sorted(unbuilt):
        total.failures.append("%s %s DID NOT BUILD" % (config, label))
    status = directory / (config + ".status")
    if status.exists() and not total.failures:
        total.failures.append("%s: bazel ended with status %s" % (
            config, status.read_text().strip()))
    return total


def count_checks(directory):
    """Checks of the sources are no test cases, but what they find is a failure."""
    count = Count()
    for check in ("format", "layers"):
        failure = directory / (check + ".failure")
        if failure.exists():
            count.failures.append(check + ": " + failure.read_text().strip())
    return count


def main(directory, configs):
    counts = {c: count_configuration(directory, c) for c in configs}
    total = count_checks(directory)
    for count in counts.values():
        total.add(count)
    for failure in total.failures:
        print("FAILED " + failure)
    for config, count in counts.items():
        print("%s: %s" % (config, count))
    print(total)
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
