"""Where settings come from, in which order, and what is refused."""
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import DEMO, CliTest, colibri


class SettingsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.model = self.copy_of(DEMO)
        self.beside = self.model.parent / "colibri_config.json"
        self.config = self.folder / "mine.json"

    def effective(self, *args, **kwargs):
        return json.loads(self.run_ok("config", self.model, "--json", *args, **kwargs))

    def test_every_key_of_the_table_is_there(self):
        keys = set(self.effective())
        self.assertLessEqual({"memory", "expert_memory", "context", "parallel", "max_batch_size", "prefill_chunk", "threads",
                              "router_threads", "isa", "kv_type", "activations", "expert_cache_policy", "lfu_threshold", "heat_file",
                              "prefetch_weight", "mmap_exec", "stream_count", "io", "log_level"}, keys)
        self.assertEqual({"default"}, {setting["from"] for setting in self.effective().values()})

    def test_flag_then_variable_then_config_then_beside_the_model_then_default(self):
        self.beside.write_text('{\n "threads": 1,\n "context": 11\n}')
        self.config.write_text('{"threads": 2}')
        sources = [
            ((), {}, 1, f"{self.beside}:2"),
            (("--config", self.config), {}, 2, f"{self.config}:1"),
            (("--config", self.config), {"COLIBRI_THREADS": 3}, 3, "COLIBRI_THREADS"),
            (("--config", self.config, "--threads", 4), {"COLIBRI_THREADS": 3}, 4, "--threads"),
        ]
        for args, env, value, origin in sources:
            with self.subTest(origin):
                settings = self.effective(*args, env=env)
                self.assertEqual({"value": str(value), "from": origin}, settings["threads"])
                self.assertEqual({"value": "11", "from": f"{self.beside}:3"}, settings["context"])
        self.beside.unlink()
        self.assertEqual("default", self.effective()["threads"]["from"])

    def test_a_run_uses_them(self):
        def threads(*args, **kwargs):
            return json.loads(self.run_ok("run", self.model, "-p", "Once", "-n", 1, "--json", *args, **kwargs))["stats"]["threads"]
        self.beside.write_text('{"threads": 3}')
        self.assertEqual(3, threads())
        self.assertEqual(2, threads(env={"COLIBRI_THREADS": 2}))
        self.assertEqual(1, threads("--threads", 1, env={"COLIBRI_THREADS": 2}))
        self.assert_fails(2, "run", self.model, "-p", "Once upon a time", "--context", 2, names=("context",))

    def test_facts_about_the_weights_are_no_settings(self):
        self.beside.write_text('{"num_experts": 32, "top_k": 4, "hidden_size": 256, "vocab_size": 4096, "weight_format": "q8_0", "threads": 1}')
        self.assertEqual("1", self.effective()["threads"]["value"])
        self.assertNotIn("num_experts", self.effective())
        self.config.write_text('{"num_experts": 32}')
        self.assert_fails(2, "config", self.model, "--config", self.config, names=("num_experts",))

    def test_unknown_keys_are_named_with_their_line_and_the_nearest(self):
        self.config.write_text('{\n "threads": 1,\n "expert_cache_polcy": "lru"\n}')
        self.assert_fails(2, "config", "--config", self.config, names=(f"{self.config}:3", "expert_cache_polcy", "expert_cache_policy"))
        self.beside.write_text('{"thread": 1}')
        self.assert_fails(2, "run", self.model, "-p", "x", names=(f"{self.beside}:1", "threads"))

    def test_values_out_of_range_are_named_with_their_origin(self):
        self.assert_fails(2, "config", "--threads", 0, names=("--threads", "0"))
        self.assert_fails(2, "config", env={"COLIBRI_ISA": "mmx"}, names=("COLIBRI_ISA", "mmx", "avx2"))
        for value in ("0", '"many"', "1.5", "null", "[1]", "{}", "true"):
            with self.subTest(value):
                self.config.write_text(f'{{\n"threads": {value}}}')
                self.assert_fails(2, "config", "--config", self.config, names=(f"{self.config}:2", "threads"))

    def test_what_is_no_object_of_settings_is_refused(self):
        for text in ("", "[]", "1", '{"threads": 1, "threads": 2}', '{"threads": 1', "{'threads': 1}"):
            with self.subTest(text):
                self.config.write_text(text)
                self.assert_fails(2, "config", "--config", self.config, names=(self.config,))
        self.assert_fails(2, "config", "--config", self.folder / "absent.json", names=("absent.json",))
        self.assert_fails(2, "config", "--config", self.folder, names=(self.folder, "folder"))

    def test_numbers_booleans_and_texts_are_all_understood(self):
        self.config.write_text('{"threads": 2, "prefetch_weight": 0.5, "mmap_exec": true, "isa": "scalar", "memory": "8G", "lfu_threshold": 7}')
        settings = self.effective("--config", self.config)
        self.assertEqual(["2", "0.5", "true", "scalar", "8G", "7"],
                         [settings[key]["value"] for key in ("threads", "prefetch_weight", "mmap_exec", "isa", "memory", "lfu_threshold")])

    def test_the_table_for_people_holds_the_same(self):
        rows = self.run_ok("config", self.model, "--threads", 2).decode().splitlines()
        self.assertIn(["threads", "2", "--threads"], [row.split() for row in rows])

    def test_log_lines_come_when_they_are_asked_for(self):
        def lines(*flags):
            return colibri("run", DEMO, "-p", "Once", "-n", 1, *flags).stderr.decode().splitlines()
        self.assertEqual([], lines())
        shown = lines("--log-level", "debug")
        self.assertGreater(len(shown), 0)
        self.assertTrue(all(line.startswith("colibri: ") for line in shown), shown)

    def test_an_instruction_set_that_is_not_there_is_an_error(self):
        self.assert_fails(2, "run", DEMO, "-p", "x", "-n", 1, "--isa", "neon", names=("neon",))


if __name__ == "__main__":
    unittest.main()
