#!/usr/bin/env python3
"""Run one Python test file and report like a GoogleTest program does: GTEST_OUTPUT=xml:FOLDER/ adds FOLDER/NAME.xml.

    tests/run_python.py tests/test_NAME.py

So scripts/summary.py counts C++ and Python cases alike. Standard library only.
"""
import importlib.util
import os
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path


class Recorder(unittest.TextTestResult):
    """Keeps every case's outcome; a case with failing subtests counts once, as failed."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = {}

    def startTest(self, test):
        super().startTest(test)
        self.outcomes[test.id()] = "completed"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcomes[test.id()] = "skipped"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcomes[test.id()] = "failed"

    def addError(self, test, err):  # also called for setUpClass, which is no case of its own
        super().addError(test, err)
        self.outcomes[test.id()] = "failed"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcomes[test.id()] = "failed"


def write_report(path, outcomes):
    root = xml.Element("testsuites")
    suite = xml.SubElement(root, "testsuite", name=path.stem)
    for name, outcome in outcomes.items():
        class_name, _, case = name.rpartition(".")
        element = xml.SubElement(suite, "testcase", name=case, classname=class_name.rpartition(".")[2], status="run",
                                 result=outcome)
        if outcome == "failed":
            xml.SubElement(element, "failure")
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(root).write(path)


def main(argv):
    file = Path(argv[1]).resolve()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(module))
    report = os.environ.get("GTEST_OUTPUT", "")
    if report.startswith("xml:"):
        write_report(Path(report[4:]) / f"{file.stem}.xml", result.outcomes)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
