"""colibri plan, inspect, validate, test; damaged models."""
import json
import os
import resource
import shutil
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import CHECKPOINT, DATA, DEMO, CliTest, colibri, header_of, truncate

SPLIT = DATA / "gguf" / "qwen3_moe-f32-00001-of-00002.gguf"


class InspectTest(CliTest):
    def test_says_what_a_model_is(self):
        for model in (DEMO, CHECKPOINT, SPLIT):
            with self.subTest(model):
                report = json.loads(self.run_ok("inspect", model, "--json"))
                self.assertEqual("qwen3_moe", report["family"])
                self.assertNotIn("tensors", report)
                text = self.run_ok("inspect", model).decode()
                self.assertIn("qwen3_moe", text)

    def test_a_weight_type_that_no_command_reads_is_not_called_supported(self):
        data = bytearray((DATA / "gguf" / "qwen3_moe-q8_0.gguf").read_bytes())
        name = b"blk.0.attn_q.weight"
        dims = data.index(name) + len(name)  # u32 number of dimensions, u64 each, u32 type
        (n,) = struct.unpack_from("<I", data, dims)
        struct.pack_into("<I", data, dims + 4 + 8 * n, 24)  # I8: known by name, smaller than what is there
        path = self.folder / "i8.gguf"
        path.write_bytes(data)
        report = json.loads(self.run_ok("inspect", path, "--json"))
        self.assertFalse(report["supported"])
        self.assertIn("I8", report["problem"])
        self.assertEqual(3, colibri("run", path, "-p", "a", "-n", "1").returncode)

    def test_tensors_are_listed_on_demand(self):
        names = {tensor["name"] for tensor in json.loads(self.run_ok("inspect", CHECKPOINT, "--tensors", "--json"))["tensors"]}
        header = json.loads(header_of(CHECKPOINT / "model.safetensors")[1])
        self.assertEqual(set(header) - {"__metadata__"}, names)
        text = self.run_ok("inspect", CHECKPOINT, "--tensors").decode()
        self.assertTrue(all(name in text for name in names))


class DoctorTest(CliTest):
    def test_says_what_the_machine_offers(self):
        report = json.loads(self.run_ok("doctor", "--json"))
        sets = report["instruction_sets"]
        self.assertIn(sets["auto"], sets["available"])
        self.assertIn("scalar", sets["available"])
        self.assertEqual(len(os.sched_getaffinity(0)) >= report["cpu"]["usable_cores"] >= 1, True)
        self.assertGreaterEqual(report["cpu"]["cores"], report["cpu"]["usable_cores"])
        memory = report["memory"]
        self.assertGreater(memory["available_bytes"], 0)
        self.assertGreaterEqual(memory["total_bytes"], memory["available_bytes"])
        self.assertIn(memory["huge_pages"], ("always", "madvise", "never", "none"))
        self.assertIsNone(report["disk"])
        self.assertIsInstance(report["advice"], list)

    def test_measures_the_disk_of_a_model_or_folder(self):
        for model, file in ((DEMO, DEMO), (CHECKPOINT, CHECKPOINT / "model.safetensors")):
            with self.subTest(model):
                disk = json.loads(self.run_ok("doctor", model, "--json"))["disk"]
                self.assertEqual(str(file), disk["file"])
                self.assertIn(disk["method"], ("direct", "buffered"))
                self.assertGreaterEqual(disk["read_bytes"], 2 * file.stat().st_size)
                self.assertGreater(disk["sequential_mb_per_second"], 0)
                self.assertGreater(disk["random_mb_per_second"], 0)

    def test_speaks_to_people_about_limits_and_says_what_to_change(self):
        text = self.run_ok("doctor", limits={resource.RLIMIT_NOFILE: 500}).decode()
        self.assertIn("instruction sets", text)
        self.assertIn("ulimit -n", text)
        self.assertIn("500", text)

    def test_a_path_that_cannot_be_measured_is_named(self):
        self.assert_fails(3, "doctor", "/nowhere/model.gguf", names=("/nowhere/model.gguf",))
        self.assert_fails(2, "doctor", self.folder, names=(self.folder,))


class PlanTest(CliTest):
    def plan(self, *args):
        return json.loads(self.run_ok("plan", *args, "--json"))

    def test_it_is_the_plan_that_a_run_follows(self):
        (stats,) = json.loads(self.run_ok("bench", DEMO, "--json", "-p", 8, "-n", 2, "-r", 1, "--context", 64))
        plan = self.plan(DEMO, "--context", 64)
        self.assertFalse(plan["streams"])
        self.assertAlmostEqual(stats["memory"]["planned_bytes"], plan["planned_bytes"], delta=2 << 20)
        parts = ("dense_bytes", "expert_bytes_resident", "kv_bytes", "workspace_bytes", "process_bytes")
        self.assertEqual(plan["planned_bytes"], sum(plan[part] for part in parts))
        self.assertEqual((64, 1), (plan["context"], plan["parallel"]))
        self.assertEqual((plan["experts"], 1.0, 0), (plan["expert_slots"], plan["expert_hit_rate"], plan["bytes_per_token"]))
        self.assertIsNone(plan["bounds"]["disk_tokens_per_second"])
        self.assertGreater(plan["bounds"]["memory_tokens_per_second"], 0)

    def test_fewer_slots_mean_more_bytes_per_token(self):
        before = 0
        for share in (75, 50, 25, 10):
            plan = self.plan(DEMO, "--context", 64, "--expert-memory", f"{share}%", "--io", "direct")
            with self.subTest(share):
                self.assertTrue(plan["streams"])
                self.assertAlmostEqual(share / 100, plan["expert_hit_rate"], delta=0.1)
                self.assertAlmostEqual(plan["expert_hit_rate"], plan["expert_slots"] / plan["experts"])
                self.assertGreater(plan["bytes_per_token"], before)
                bounds = plan["bounds"]
                self.assertGreater(min(bounds["disk_tokens_per_second"], bounds["memory_tokens_per_second"]), bounds["tokens_per_second"])
                self.assertEqual(plan["io"], plan["disk"]["method"])
            before = plan["bytes_per_token"]

    def test_the_minimum_is_enough_and_less_is_refused_with_it(self):
        least = self.plan(DEMO, "--context", 64, "--expert-memory", "0")["minimum_bytes"]
        margin = 4 << 20  # what a process takes differs a little each time
        self.plan(DEMO, "--context", 64, "--expert-memory", "0", "--memory", least + margin)
        self.assert_fails(4, "plan", DEMO, "--context", 64, "--memory", 1 << 20, names=("at least", "MiB", "1.0 MiB", "--memory"))

    def test_people_read_a_table(self):
        text = self.run_ok("plan", DEMO, "--context", 64, "--expert-memory", "30%").decode()
        for words in ("keys and values", "64 tokens x 1, f32", "planned", "minimum", "in memory at a time", "io ", "tokens/s"):
            self.assertIn(words, text)
        self.assertNotIn("read when they are wanted", self.run_ok("plan", DEMO, "--context", 64).decode())
        self.assertIn("in memory", self.run_ok("plan", DATA / "checkpoints" / "llama", "--context", 64).decode())

    def test_a_damaged_model_is_named(self):
        model = self.copy_of(DEMO)
        truncate(model, 1000)
        self.assert_fails(3, "plan", model, names=(model,))


class ValidateTest(CliTest):
    def assert_bad(self, model, *names, flags=()):
        done = colibri("validate", model, *flags)
        self.assertEqual(3, done.returncode, done.stderr)
        said = (done.stdout + done.stderr).decode()
        for name in names:
            self.assertIn(name, said)
        machine = colibri("validate", model, "--json", *flags)
        self.assertEqual(3, machine.returncode)
        if machine.stdout:
            report = json.loads(machine.stdout)
            self.assertFalse(report["ok"])
            self.assertGreater(len(report["problems"]), 0)

    def test_good_models_are_good(self):
        for model in (DEMO, CHECKPOINT, SPLIT):
            with self.subTest(model):
                report = json.loads(self.run_ok("validate", model, "--json"))
                self.assertEqual((True, []), (report["ok"], report["problems"]))
        self.assertTrue(json.loads(self.run_ok("validate", DEMO, "--tokenizer", "--json"))["ok"])

    def test_cut_files_are_refused_everywhere(self):
        for source, file in ((CHECKPOINT, "model.safetensors"), (DEMO, None)):
            for n_bytes in (1, 1000):
                with self.subTest(f"{source.name} less {n_bytes}"):
                    model = self.copy_of(source)
                    truncate(model / file if file else model, n_bytes)
                    name = file or source.name
                    self.assert_bad(model, name)
                    tokens = self.write("tokens.json", '{"prompts": [[1]]}')
                    self.assert_fails(3, "logits", model, "--tokens", tokens, "--out", self.folder / "out", names=(name,))
                    shutil.rmtree(self.folder / "model")

    def test_a_missing_part_is_named(self):
        model = self.copy_of(SPLIT)
        self.assert_fails(3, "bench", model, names=("00002-of-00002",))

    def test_a_value_that_is_not_finite_is_found(self):
        model = self.copy_of(CHECKPOINT)
        path = model / "model.safetensors"
        length, text = header_of(path)
        name, entry = next((name, entry) for name, entry in json.loads(text).items() if name.endswith("down_proj.weight"))
        self.assertEqual("BF16", entry["dtype"])
        data = bytearray(path.read_bytes())
        struct.pack_into("<H", data, 8 + length + entry["data_offsets"][0] + 2 * 5, 0x7FC0)
        path.write_bytes(data)
        self.assert_bad(model, name)

    def test_a_missing_tensor_is_named(self):
        model = self.copy_of(CHECKPOINT)
        path = model / "model.safetensors"
        data = path.read_bytes()
        name = "model.layers.1.mlp.experts.3.up_proj.weight"
        self.assertIn(name.encode(), data)
        path.write_bytes(data.replace(name.encode(), b"model.layers.1.mlp.experts.3.up_prox.weight"))
        self.assert_bad(model, "up_proj")

    def test_contradicting_names_of_the_family_are_both_given(self):
        model = self.copy_of(CHECKPOINT)
        config = json.loads((model / "config.json").read_text())
        config["model_type"] = "mixtral"
        (model / "config.json").write_text(json.dumps(config))
        self.assert_fails(3, "bench", model, names=("mixtral", "Qwen3MoeForCausalLM"))

    def test_what_is_no_model_is_refused(self):
        for name, content in (("page.gguf", "<html>Not found</html>"), ("empty.gguf", ""), ("magic.gguf", "GGUF")):
            with self.subTest(name):
                path = self.write(name, content)
                for command in ("inspect", "validate", "bench"):
                    self.assert_fails(3, command, path, names=(name,))
        self.assert_fails(3, "inspect", self.folder, names=(self.folder,))


class PathTest(CliTest):
    def test_paths_may_hold_anything(self):
        model = self.copy_of(DEMO, "a \u00fcmlaut, blanks and \U0001f426").rename(self.folder / "-m%s.gguf")
        expected = self.run_ok("run", DEMO, "-p", "Once", "-n", 5, "--temperature", 0)
        self.assertEqual(expected, self.run_ok("run", model, "-p", "Once", "-n", 5, "--temperature", 0))
        folder = self.copy_of(CHECKPOINT, "\u4f60 \u597d")
        self.assertIn(str(folder), self.run_ok("inspect", folder).decode())


class SelfTest(CliTest):
    def test_kernels_and_router_agree_with_the_scalar_code(self):
        for what in ("kernels", "router"):
            with self.subTest(what):
                rows = json.loads(self.run_ok("test", what, "--json"))
                self.assertGreater(len(rows), 0)
                self.assertTrue(all(row["equal"] for row in rows))
                self.assertLessEqual({"isa", "operation", "encoding", "equal", "nanoseconds", "gflops"}, set(rows[0]))
        self.assertIn(b"isa", self.run_ok("--test", "router").splitlines()[0])


if __name__ == "__main__":
    unittest.main()
