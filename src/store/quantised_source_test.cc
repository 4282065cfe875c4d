#include "store/quantised_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "platform/memory.h"
#include "store/expert_store.h"
#include "store/fake_disk.h"
#include "store/loader.h"
#include "store/streaming_store.h"
#include "tensor/convert.h"

namespace colibri::store {
namespace {

using formats::TensorInfo;

// tests/data/quantised.safetensors (made by tools/make_quantised_data.py): SCHEME.m is a module, SCHEME.expected what
// it decodes to; the configs are in the file's metadata.
class QuantisedSource : public testing::Test {
 protected:
  static std::string path() { return COLIBRI_SOURCE_DIR "/tests/data/quantised.safetensors"; }

  void SetUp() override {
    const platform::File file = *platform::File::open(path());
    uint64_t length = 0;
    ASSERT_TRUE(file.read_at(0, std::as_writable_bytes(std::span(&length, 1))).ok());
    std::string header(length, '\0');
    ASSERT_TRUE(file.read_at(8, std::as_writable_bytes(std::span(header))).ok());
    const Json json = *parse_json(header);
    for (const auto& [name, text] : json.find("__metadata__")->as_object())
      configs_.set(name, *parse_json(text.as_string()));
  }

  formats::Quantisation quantisation(const std::string& scheme) const {
    Json config;
    config.set("quantization_config", *configs_.find(scheme));
    auto q = formats::read_quantisation(config, "config.json");
    EXPECT_TRUE(q.ok()) << q.error().message;
    return *q;
  }

  Result<MatrixSource> find(const std::string& scheme) const {
    return find_matrix(catalog_, quantisation(scheme), scheme + ".m", expected_tensor(scheme).shape);
  }

  const TensorInfo& expected_tensor(const std::string& scheme) const { return *catalog_.find(scheme + ".expected"); }

  // [outputs, inputs]
  std::vector<float> expected(const std::string& scheme) const {
    const TensorInfo& tensor = expected_tensor(scheme);
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    EXPECT_TRUE(catalog_.read(tensor, 0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }

  std::vector<float> load(const MatrixSource& source, bool little_memory) const {
    platform::Arena arena = *platform::Arena::allocate(source.packed_size());
    StagingNeed need;
    need.cover(source);
    int64_t bytes = need.bytes();
    if (little_memory) bytes -= need.read_bytes - platform::aligned_bytes(least_read_bytes(source));
    std::vector<std::byte> staging(static_cast<size_t>(bytes));
    std::byte* data = arena.take(source.packed_size());
    const Status loaded = load_matrix(catalog_, source, staging, data);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return unpacked({source.encoding, source.n, source.k, data});
  }

  static std::vector<float> unpacked(const PackedMatrix& matrix) {
    std::vector<float> values(static_cast<size_t>(matrix.n * matrix.k));
    for (int64_t r = 0; r < matrix.n; ++r) unpack_row(matrix, r, values.data() + r * matrix.k);
    return values;
  }

  const formats::TensorCatalog catalog_ = *formats::open_catalog(path());
  Json configs_;
};

TEST_F(QuantisedSource, EverySchemeDecodesToWhatItsDescriptionSaysToTheLastBit) {
  ASSERT_GE(configs_.as_object().size(), 18u);
  for (const auto& [scheme, config] : configs_.as_object()) {
    Result<MatrixSource> source = find(scheme);
    ASSERT_TRUE(source.ok()) << source.error().message;
    const std::vector<float> values = expected(scheme);
    for (const bool little_memory : {false, true}) {
      EXPECT_EQ(load(*source, little_memory), values) << scheme << " as " << name(source->encoding);
      MatrixSource as_floats = *source;
      as_floats.encoding = Encoding::kF32;
      EXPECT_EQ(load(as_floats, little_memory), values) << scheme;
    }
  }
}

TEST_F(QuantisedSource, TheSmallestEncodingWithoutLossIsChosen) {
  for (const auto& [scheme, encoding] : {std::pair("fp8", Encoding::kF8E4M3),
                                         {"fp8_channel", Encoding::kF8E4M3},
                                         {"mxfp4", Encoding::kMXFP4},
                                         {"ct_mxfp4", Encoding::kMXFP4},
                                         {"ct_nvfp4", Encoding::kF32},
                                         {"ct_int4", Encoding::kCodes4},
                                         {"ct_int4_zero", Encoding::kCodes4},
                                         {"ct_int4_order", Encoding::kF32},
                                         {"ct_int8_channel", Encoding::kCodes8},
                                         {"ct_int8_plain", Encoding::kCodes8},
                                         {"gptq", Encoding::kCodes4},
                                         {"gptq_v2_8bit", Encoding::kF32},
                                         {"gptq_order", Encoding::kF32},
                                         {"awq", Encoding::kCodes4}})
    EXPECT_EQ(find(scheme)->encoding, encoding) << scheme;
}

TEST_F(QuantisedSource, ATransposedPartIsTheTransposeOfThatPart) {
  for (const auto& [scheme, config] : configs_.as_object()) {
    const MatrixSource whole = *find(scheme);
    const int64_t inputs = expected_tensor(scheme).shape[expected_tensor(scheme).shape.size() - 1];
    // Inputs 3, 4, 13, 14, 23, 24, ... of outputs 8 to 18.
    const MatrixSource part = select_transposed(whole, 3, 16, 8, 11, 2, 10);
    const std::vector<float> values = expected(scheme), got = load(part, true);
    for (int64_t row = 0; row < 16; ++row)
      for (int64_t input = 0; input < 11; ++input)
        ASSERT_EQ(got[static_cast<size_t>(row * 11 + input)],
                  values[static_cast<size_t>((8 + input) * inputs + 3 + row / 2 * 10 + row % 2)])
            << scheme << " " << row << " " << input;
  }
}

TEST_F(QuantisedSource, SelectedRowsAreThoseOfTheWhole) {
  for (const auto& [scheme, config] : configs_.as_object()) {
    const MatrixSource part = select_rows(*find(scheme), 1, 10, 2, 4);
    const std::vector<float> values = expected(scheme), got = load(part, true);
    for (int64_t row = 0; row < 10; ++row)
      for (int64_t input = 0; input < part.k; ++input)
        ASSERT_EQ(got[static_cast<size_t>(row * part.k + input)],
                  values[static_cast<size_t>((1 + row / 2 * 4 + row % 2) * part.k + input)])
            << scheme << " " << row << " " << input;
  }
}

TEST_F(QuantisedSource, ThreadsAndStreamsBringInTheSame) {
  for (const auto& [scheme, config] : configs_.as_object()) {
    const MatrixSource whole = *find(scheme);
    const int64_t n = expected_tensor(scheme).shape.elements() / whole.k;
    // Two experts, whose gate and up lie between each other's rows.
    std::vector<ExpertSource> experts;
    for (int64_t e = 0; e < 2; ++e)
      experts.push_back({select_rows(whole, e * n / 2, n / 4, 1, 2), select_rows(whole, e * n / 2 + 1, n / 4, 1, 2),
                         select_rows(whole, e * n / 2, n / 2)});
    platform::Arena arena = *platform::Arena::allocate(resident_store_bytes(experts));
    std::vector<LoadJob> jobs;
    const auto resident = make_resident_store(experts, 1, 2, arena, jobs);
    StagingNeed need;
    for (const LoadJob& job : jobs) need.cover(job.source);
    std::vector<std::byte> staging(static_cast<size_t>(2 * need.bytes()));
    ASSERT_TRUE(load_matrices(catalog_, jobs, 2, staging, {}).ok());

    StreamingOptions options;
    options.slots = plan_slots(experts, 1, 2, slot_bytes(experts[0]), 1);
    options.readers = {2, 1024};
    platform::Arena slots = *platform::Arena::allocate(options.slots.bytes());
    auto disk = std::make_unique<FakeDisk>(
        catalog_, [](int64_t, int64_t) { return DiskBehaviour{}; }, 512);
    const auto streaming = *make_streaming_store(experts, 1, 2, {slots.data(), static_cast<size_t>(slots.size_bytes())},
                                                 std::move(disk), options);
    for (const int32_t e : {0, 1}) {
      const ExpertLeases want = resident->acquire(0, {&e, 1}, ArrivalOrder::kAny);
      ExpertLeases got = streaming->acquire(0, {&e, 1}, ArrivalOrder::kAny);
      const auto ready = got.next();
      ASSERT_TRUE(ready.ok()) << scheme << ": " << ready.error().message;
      const ExpertWeights &a = *want.by_expert()[static_cast<size_t>(e)], &b = *got.by_expert()[static_cast<size_t>(e)];
      EXPECT_EQ(unpacked(a.gate), unpacked(b.gate)) << scheme;
      EXPECT_EQ(unpacked(a.up), unpacked(b.up)) << scheme;
      EXPECT_EQ(unpacked(a.down), unpacked(b.down)) << scheme;
      const std::vector<float> values = expected(scheme), gate = unpacked(a.gate);
      EXPECT_TRUE(std::equal(gate.begin(), gate.begin() + whole.k, values.begin() + e * n / 2 * whole.k)) << scheme;
    }
  }
}

TEST_F(QuantisedSource, TensorsThatDoNotFitTheConfigAreNamed) {
  const auto error = [&](const std::string& scheme, const std::string& config, const Shape& shape) {
    const auto source = find_matrix(catalog_, quantisation(config), scheme + ".m", shape);
    return source.ok() ? "found" : source.error().message;
  };
  const auto says = [](const std::string& message, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  says(error("gptq", "gptq_v2_8bit", {24, 288}), {path().c_str(), "gptq.m.qweight", "I32 [36, 24]", "I32 [72, 24]"});
  says(error("gptq", "gptq", {24, 97}), {"97 inputs", "8"});
  says(error("ct_int4", "ct_int4_zero", {24, 96}), {"ct_int4.m.weight_zero_point", "missing"});
  says(error("ct_int4", "awq", {24, 96}), {"ct_int4.m.weight_packed", "awq, 4 bits"});
  says(error("fp8", "fp8_e8m0", {24, 96}), {"fp8.m.weight_scale_inv", "F32 [2, 2]", "[2, 3]"});
  says(find_matrix(catalog_, {}, "fp8.m", {24, 96}).error().message, {"fp8.m.weight", "no quantization_config"});
  says(find_matrix(catalog_, {}, "none", {24, 96}).error().message, {"none.weight", "missing"});
}

TEST_F(QuantisedSource, WholeMatricesPassTheCheck) {
  for (const auto& [scheme, config] : configs_.as_object()) {
    const Status status = check_matrix(catalog_, *find(scheme));
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

TEST_F(QuantisedSource, TheCheckFindsAShapeThatIsNotTheModulesAndAScaleThatIsNotFinite) {
  MatrixSource source = *find("ct_int4");
  source.n = 16;  // the file says 24
  EXPECT_NE(check_matrix(catalog_, source).error().message.find("ct_int4.m.weight_shape"), std::string::npos);
  TensorInfo noise = *catalog_.find("awq.m.qweight");
  noise.dtype = DType::kF16;  // some of which are infinite
  source = *find("awq");
  source.codes.scales.tensor = &noise;
  const std::string message = check_matrix(catalog_, source).error().message;
  EXPECT_NE(message.find("awq.m.qweight"), std::string::npos) << message;
  EXPECT_NE(message.find("not finite"), std::string::npos) << message;
}

TEST_F(QuantisedSource, AnOrderOfGroupsThatTheConfigDoesNotAnnounceIsRefused) {
  formats::Quantisation q = quantisation("gptq_order");
  q.schemes.front().act_order = false;
  const MatrixSource source = *find_matrix(catalog_, q, "gptq_order.m", {24, 288});
  StagingNeed need;
  need.cover(source);
  std::vector<std::byte> staging(static_cast<size_t>(need.bytes())), packed(static_cast<size_t>(source.packed_size()));
  const Status status = load_matrix(catalog_, source, staging, packed.data());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("gptq_order.m.g_idx"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace colibri::store
