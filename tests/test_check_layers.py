"""The layers check must catch a wrong arrow: each test plants one in a small tree and expects it to be named."""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402


def complaints(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(Path(folder))[0]


class LayersTest(unittest.TestCase):
    def test_downward_includes_pass(self):
        self.assertEqual([], complaints({
            "src/base/a.h": "#include <vector>\n",
            "src/store/b.cc": '#include "store/b.h"\n#include "formats/catalog.h"\n#include "base/a.h"\n',
            "src/capi/c.cc": '#include "colibri/colibri.h"\n#include "engine/engine.h"\n',
            "src/store/b_test.cc": "#include <gtest/gtest.h>\n",
            "apps/cli/main.cc": '#include <colibri/colibri.hpp>\n#include "options.h"\n',
        }))

    def test_upward_include_names_file_and_line(self):
        (error,) = complaints({"src/base/a.cc": '#include "base/a.h"\n#include "engine/engine.h"\n'})
        self.assertTrue(error.startswith('src/base/a.cc:2: includes "engine/engine.h"'), error)

    def test_siblings_do_not_see_each_other(self):
        for layer, other in (("store", "compute"), ("compute", "store"), ("platform", "tensor"), ("text", "platform"),
                             ("kv", "compute"), ("tensor", "formats")):
            with self.subTest(f"{layer} -> {other}"):
                self.assertEqual(1, len(complaints({f"src/{layer}/a.cc": f'#include "{other}/x.h"\n'})))

    def test_a_unit_test_obeys_its_layer(self):
        self.assertEqual(1, len(complaints({"src/text/a_test.cc": '#include "model/x.h"\n'})))

    def test_apps_see_the_public_header_only(self):
        self.assertEqual(2, len(complaints({"apps/cli/main.cc": '#include "base/json.h"\n#include "engine/engine.h"\n'})))

    def test_the_program_is_made_of_common_and_server_and_not_the_other_way(self):
        self.assertEqual([], complaints({
            "apps/common/json.cc": '#include "common/json.h"\n',
            "apps/server/a.cc": '#include "common/json.h"\n#include "router.h"\n#include "colibri/colibri.h"\n',
            "apps/cli/a.cc": '#include "common/json.h"\n#include "server/serve.h"\n',
        }))
        self.assertEqual(3, len(complaints({
            "apps/common/a.cc": '#include "server/serve.h"\n',
            "apps/server/a.cc": '#include "cli/args.h"\n',
            "apps/new/a.cc": '#include "common/json.h"\n',
        })))

    def test_ways_around_the_check_are_closed(self):
        self.assertEqual(1, len(complaints({"src/base/a.cc": '#include "../engine/engine.h"\n'})))
        self.assertEqual(1, len(complaints({"src/base/a.cc": "#  include <engine/engine.h>\n"})))
        self.assertEqual(1, len(complaints({"src/extra/a.cc": '#include "base/a.h"\n'})))

    def test_kernels_are_leaves(self):
        self.assertEqual(1, len(complaints({"src/compute/cpu/kernels/avx2.cc": '#include "compute/backend.h"\n'})))

    def test_platform_conditions_only_where_they_belong(self):
        condition = "#if defined(__AVX2__) && FOO\n#endif\n"
        self.assertEqual([], complaints({"src/platform/a.cc": condition, "src/compute/cpu/kernels/a.cc": condition}))
        self.assertEqual(1, len(complaints({"src/model/a.cc": condition})))
        self.assertEqual(1, len(complaints({"apps/cli/a.cc": "#ifdef _WIN32\n#endif\n"})))
        self.assertEqual([], complaints({"src/model/a.cc": "#ifndef NDEBUG\n#endif\n"}))

    def test_an_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(1, check_layers.main(["check_layers.py", folder]))

    def test_this_project_obeys(self):
        errors, n_files = check_layers.check(ROOT)
        self.assertEqual([], errors)
        self.assertGreater(n_files, 20)


if __name__ == "__main__":
    unittest.main()
