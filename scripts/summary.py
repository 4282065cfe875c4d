#!/usr/bin/env python3
"""Add up test reports and judge them; the last line is 'N passed, N failed, N skipped'.

    scripts/summary.py NAME=FOLDER ...

Each FOLDER holds one run: ctest.xml (ctest --output-junit) and the report of every test program (GTEST_OUTPUT=xml:FOLDER/).
Fails when a case failed, when a test program died without a report, when a run executed nothing, and when a case was
skipped that tests/known_skips.txt does not allow.
"""
import fnmatch
import os
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cases_of(report):
    """(name, outcome) of every case that one program reported."""
    for case in xml.parse(report).getroot().iter("testcase"):
        if case.get("status") == "notrun":
            continue
        if case.find("failure") is not None:
            outcome = "failed"
        else:
            outcome = "skipped" if case.get("result") == "skipped" else "passed"
        yield f"{case.get('classname')}.{case.get('name')}", outcome


def program_cases(folder, test):
    """Cases of one ctest test; a test without a report of its own is one case."""
    name, status = test.get("name"), test.get("status")
    for report in (folder / f"{name}_test.xml", folder / f"{name}.xml"):
        if report.exists():
            cases = list(cases_of(report))
            break
    else:
        cases = [(name, {"run": "passed", "disabled": "skipped", "notrun": "skipped"}.get(status, "failed"))]
    if status == "fail" and all(outcome != "failed" for _, outcome in cases):
        cases.append((f"{name} (whole program)", "failed"))  # died after its cases, or a sanitizer's report at exit
    return cases


def run_cases(folder):
    cases = []
    for test in xml.parse(folder / "ctest.xml").getroot().iter("testcase"):
        cases += program_cases(folder, test)
    return cases


def shared_is_present():
    return Path(os.environ.get("COLIBRI_SHARED", ROOT.parent / "shared")).is_dir()


def known_skips(path, shared):
    """Patterns of the skips that are allowed here; see the head of the file."""
    patterns = []
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if len(words) == 2 and (words[0] == "cpu" or (words[0] == "shared" and not shared)):
            patterns.append(words[1])
    return patterns


def counts(cases):
    return [sum(outcome == wanted for _, outcome in cases) for wanted in ("passed", "failed", "skipped")]


def line(cases):
    return "{} passed, {} failed, {} skipped".format(*counts(cases))


def judge(runs, patterns):
    """What is wrong with the runs, as lines."""
    for name, cases in runs.items():
        if counts(cases)[0] == 0:
            yield f"{name}: no test passed"
        for case, outcome in cases:
            if outcome == "failed":
                yield f"{name}: failed: {case}"
            elif outcome == "skipped" and not any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns):
                yield f"{name}: skipped, and tests/known_skips.txt does not allow it here: {case}"


def main(argv):
    runs = {name: run_cases(Path(folder)) for name, folder in (argument.split("=", 1) for argument in argv[1:])}
    shared = shared_is_present()
    complaints = list(judge(runs, known_skips(ROOT / "tests" / "known_skips.txt", shared)))
    for complaint in complaints:
        print(complaint)
    for name, cases in runs.items():
        print(f"in {name} build: {line(cases)}")
    everything = [case for cases in runs.values() for case in cases]
    if not shared:
        print(f"../shared is not there: {counts(everything)[2]} tests that need it were skipped")
    print(line(everything))
    return 1 if complaints or not runs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
