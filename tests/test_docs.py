"""The links in the documents lead somewhere, and the README's table and commands are those of the program."""
import re
import subprocess
import unittest

import parity

DOCUMENTS = sorted(parity.ROOT.glob("*.md")) + sorted((parity.ROOT / "docs").glob("*.md")) + sorted(
    (parity.ROOT / "examples").glob("*.md")) + sorted((parity.ROOT / "models").glob("*.md"))


class DocsTest(unittest.TestCase):
    def test_every_relative_link_leads_to_a_file(self):
        checked = 0
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
                if re.match(r"[a-z]+:", target):
                    continue
                checked += 1
                self.assertTrue((document.parent / target).exists(), f"{document.name}: {target}")
        self.assertGreater(checked, 20)

    def test_the_life_of_one_token_has_its_fourteen_stops(self):
        text = (parity.ROOT / "ARCHITECTURE.md").read_text()
        self.assertEqual(re.findall(r"^\| (\d+) \|", text, re.M), [str(n) for n in range(1, 15)])

    def test_every_command_in_the_readme_is_known_to_the_program(self):
        readme = (parity.ROOT / "README.md").read_text()
        commands = set(re.findall(r"^    colibri ([a-z]+)", readme, re.M))
        self.assertGreater(len(commands), 8)
        for command in commands:
            done = subprocess.run([parity.BIN, command, "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
