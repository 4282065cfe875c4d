"""Logits thousands of tokens into a text equal those of transformers, for each way to remember.

    LONG_DATA=FILE tests/test_long_context.py    # FILE of tools/make_long_data.py --by-hand: 32k and 128k positions
"""
import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

import long_context
import parity

# transformers multiplies frequency and position in float32 as we do, but a power may round otherwise: a frequency that
# is 2^-23 off turns by 5e-4 more at 4k, 4e-3 at 32k, 1.6e-2 at 128k. Random weights give logits near 1.
TOLERANCE = {4200: 5e-4, 32768: 4e-3, 131072: 1.6e-2}


class LongContextTest(unittest.TestCase):
    def compare(self, data, name, length):
        folder = parity.DATA / "checkpoints" / name
        positions = data[f"{name}.{length}.positions"].values
        want = data[f"{name}.{length}.logits"]
        with tempfile.TemporaryDirectory() as copy:
            for file in folder.glob("model*"):
                shutil.copy(file, copy)
            (Path(copy) / "config.json").write_text(json.dumps(long_context.changed_config(folder, name)))
            out = parity.parse_logits(parity.run_logits(copy, [long_context.prompt(length)], 1))
        got = out["logits.0"]
        self.assertEqual(length, got.shape[0])
        for row, position in enumerate(positions):
            worst = max((abs(a - b) for a, b in zip(got.row(position), want.row(row), strict=True)), key=lambda d: (d != d, d))
            self.assertLess(worst, TOLERANCE[length], f"{name}, position {position}")
        return max(max(abs(a - b) for a, b in zip(got.row(p), want.row(r))) for r, p in enumerate(positions))

    def test_logits_at_4k_equal_transformers(self):
        data = parity.read_safetensors(parity.DATA / "long_context.safetensors")
        for name in long_context.CHANGES:
            with self.subTest(model=name):
                self.compare(data, name, 4200)

    def test_logits_at_32k_and_128k_equal_transformers(self):
        file = os.environ.get("LONG_DATA")
        if not file:
            return  # by hand: see above
        data = parity.read_safetensors(file)
        for key in data:
            name, length, kind = key.split(".")
            if kind == "logits":
                with self.subTest(model=name, length=length):
                    print(name, length, f"largest difference {self.compare(data, name, int(length)):.1e}")


if __name__ == "__main__":
    unittest.main()
