"""`make demo` shows a whole story: the model that ships, through the ordinary path."""
import subprocess
import unittest

import parity

MODEL = "models/colibri-tales-14m-q8_0.gguf"


class DemoTest(unittest.TestCase):
    def test_it_tells_a_whole_story_and_nothing_else(self):
        done = subprocess.run([str(parity.ROOT / "scripts" / "demo.sh"), MODEL], capture_output=True, text=True, timeout=300)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        story = done.stdout.strip()
        self.assertTrue(story.startswith("Once upon a time"), story)
        self.assertTrue(story.endswith((".", "!", '"')), story)
        self.assertGreaterEqual(len(story.split()), 100, story)


if __name__ == "__main__":
    unittest.main()
