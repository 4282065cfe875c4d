// The C API as a careless caller uses it: NULL arguments, sizes not set, values out of range. It must refuse, never
// crash.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "colibri/colibri.h"

namespace {

constexpr const char* kModel = COLIBRI_SOURCE_DIR "/tests/data/checkpoints/qwen3_moe";

class CApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(colibri_open(kModel, nullptr, &engine_, &error_), COLIBRI_OK) << error_.message; }
  void TearDown() override { colibri_close(engine_); }

  colibri_request request() const {
    colibri_request r;
    colibri_request_init(engine_, &r);
    r.prompt = kPrompt;
    r.n_prompt = 3;
    r.max_tokens = 2;
    return r;
  }
  colibri_status submit(const colibri_request& r) {
    colibri_sequence* sequence = nullptr;
    const colibri_status status = colibri_submit(engine_, &r, &sequence, &error_);
    colibri_sequence_free(sequence);
    return status;
  }
  void read_to_the_end(colibri_sequence* sequence, colibri_event& event) {
    do {
      event.struct_size = sizeof event;
      ASSERT_EQ(colibri_next_event(sequence, -1, &event, &error_), COLIBRI_OK);
    } while (event.kind != COLIBRI_EVENT_END);
    event.struct_size = sizeof event;
  }

  static constexpr int32_t kPrompt[3] = {5, 6, 7};
  colibri_engine* engine_ = nullptr;
  colibri_error error_{};
};

TEST(CApiWithoutEngine, NullArgumentsAreRefusedByName) {
  colibri_error error{};
  EXPECT_EQ(colibri_open(nullptr, nullptr, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_open(nullptr, nullptr, nullptr, nullptr), COLIBRI_USAGE);
  EXPECT_NE(std::string(error.message).find("path"), std::string::npos);
  EXPECT_EQ(colibri_inspect(nullptr, 0, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_validate(kModel, 0, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_self_test("everything", nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_text_open(nullptr, nullptr, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_setting_check(nullptr, "1", &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_next_event(nullptr, 0, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_evaluate(nullptr, nullptr, 0, nullptr, &error), COLIBRI_USAGE);
  colibri_options_init(nullptr);
  colibri_request_init(nullptr, nullptr);
  colibri_close(nullptr);
  colibri_text_close(nullptr);
  colibri_sequence_free(nullptr);
  colibri_string_free(nullptr);
  colibri_ids_free(nullptr);
  colibri_cancel(nullptr);
}

TEST(CApiWithoutEngine, OptionsWithoutASizeOrWithMissingListsAreRefused) {
  colibri_error error{};
  colibri_engine* engine = nullptr;
  colibri_options options;
  colibri_options_init(&options);
  options.n_settings = 1;
  EXPECT_EQ(colibri_open(kModel, &options, &engine, &error), COLIBRI_USAGE);
  colibri_options_init(&options);
  options.struct_size = 0;
  EXPECT_EQ(colibri_open(kModel, &options, &engine, &error), COLIBRI_USAGE);
  EXPECT_NE(std::string(error.message).find("struct_size"), std::string::npos);
  EXPECT_EQ(engine, nullptr);
}

TEST(CApiWithoutEngine, ARequestIsCheckedBeforeAnythingIsLoaded) {
  colibri_error error{};
  colibri_request r;
  colibri_request_init(nullptr, &r);
  const int32_t prompt[] = {1, 2, 384};
  r.prompt = prompt;
  r.n_prompt = 3;
  EXPECT_EQ(colibri_request_check(&r, 384, 100, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_request_check(&r, 385, 100, &error), COLIBRI_OK);
  EXPECT_EQ(colibri_request_check(&r, 385, 3, &error), COLIBRI_CONTEXT_OVERFLOW);
  r.max_tokens = 0;
  EXPECT_EQ(colibri_request_check(&r, 385, 3, &error), COLIBRI_OK);
  r.temperature = -1;
  EXPECT_EQ(colibri_request_check(&r, 385, 0, &error), COLIBRI_USAGE);
}

TEST_F(CApi, RequestsWithMissingListsOrNumbersOutOfRangeAreRefused) {
  EXPECT_EQ(submit(request()), COLIBRI_OK);
  colibri_request r = request();
  r.struct_size = 0;
  EXPECT_EQ(submit(r), COLIBRI_USAGE);
  r = request();
  r.n_stop = 1;
  EXPECT_EQ(submit(r), COLIBRI_USAGE);
  r = request();
  r.n_logit_bias = 3;
  EXPECT_EQ(submit(r), COLIBRI_USAGE);
  r = request();
  r.max_tokens = -2;
  EXPECT_EQ(submit(r), COLIBRI_USAGE);
  r = request();
  const colibri_logit_bias bias = {99999, 1.0};
  r.logit_bias = &bias;
  r.n_logit_bias = 1;
  EXPECT_EQ(submit(r), COLIBRI_USAGE);
  EXPECT_NE(std::string(error_.message).find("99999"), std::string::npos);
}

TEST_F(CApi, AnEvaluationStopsWhenItsCallbackSaysSo) {
  std::atomic<int> asked{0};
  colibri_evaluate_callbacks callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.user = &asked;
  callbacks.stop = [](void* user) { return static_cast<std::atomic<int>*>(user)->fetch_add(1) >= 3 ? 1 : 0; };
  EXPECT_EQ(colibri_evaluate(engine_, kPrompt, 3, &callbacks, &error_), COLIBRI_CANCELLED);
  EXPECT_EQ(submit(request()), COLIBRI_OK);  // and the engine goes on
}

TEST_F(CApi, ARoutingCallbackEndsItsSequenceAndIsNotCalledOnceThatIsFreed) {
  std::atomic<int> calls{0};
  colibri_request r = request();
  r.routing_user = &calls;
  r.routing = [](void* user, int32_t, int32_t, int32_t, const int32_t*, const float*, int32_t) {
    return static_cast<std::atomic<int>*>(user)->fetch_add(1) >= 0 ? 1 : 0;
  };
  colibri_sequence* sequence = nullptr;
  ASSERT_EQ(colibri_submit(engine_, &r, &sequence, &error_), COLIBRI_OK);
  colibri_event event{};
  ASSERT_NO_FATAL_FAILURE(read_to_the_end(sequence, event));
  EXPECT_STREQ(event.finish_reason, "cancelled");
  EXPECT_GT(calls.load(), 0);
  colibri_sequence_free(sequence);

  r.max_tokens = 50;
  r.ignore_eos = 1;
  r.routing = [](void* user, int32_t, int32_t, int32_t, const int32_t*, const float*, int32_t) {
    static_cast<std::atomic<int>*>(user)->fetch_add(1);
    return 0;
  };
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(colibri_submit(engine_, &r, &sequence, &error_), COLIBRI_OK);
    if (round % 2 == 1) {
      ASSERT_EQ(colibri_next_event(sequence, -1, &event, &error_), COLIBRI_OK);
    }
    colibri_sequence_free(sequence);
    const int before = calls.load();
    ASSERT_EQ(submit(request()), COLIBRI_OK);  // steps of others
    EXPECT_EQ(calls.load(), before);
  }
}

TEST_F(CApi, AfterTheEndTheEndIsGivenAgain) {
  const colibri_request r = request();
  colibri_sequence* sequence = nullptr;
  ASSERT_EQ(colibri_submit(engine_, &r, &sequence, &error_), COLIBRI_OK);
  colibri_event event{};
  ASSERT_NO_FATAL_FAILURE(read_to_the_end(sequence, event));
  ASSERT_EQ(colibri_next_event(sequence, -1, &event, &error_), COLIBRI_OK);
  EXPECT_EQ(event.kind, COLIBRI_EVENT_END);
  EXPECT_STREQ(event.finish_reason, "length");
  colibri_sequence_free(sequence);
}

TEST_F(CApi, ExpertsAreToldByTheirDecoderLayers) {
  const auto layers_of = [](const std::string& family, size_t n) {
    const std::string path = COLIBRI_SOURCE_DIR "/tests/data/checkpoints/" + family;
    colibri_engine* engine = nullptr;
    EXPECT_EQ(colibri_open(path.c_str(), nullptr, &engine, nullptr), COLIBRI_OK) << path;
    std::vector<int32_t> layers(n, -1);
    EXPECT_EQ(colibri_engine_moe_layers(engine, layers.data(), nullptr), COLIBRI_OK);
    colibri_close(engine);
    return layers;
  };
  EXPECT_EQ(layers_of("qwen3_moe", 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(layers_of("glm_moe_dsa", 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(layers_of("qwen2_moe", 2), (std::vector<int32_t>{1, 3}));  // every second one
  EXPECT_EQ(colibri_engine_moe_layers(engine_, nullptr, &error_), COLIBRI_USAGE);
}

// As a server that sends log probabilities needs them: the tokens of a text, joined, are the text.
TEST(CApiText, TheBytesOfTokensMakeTheText) {
  colibri_text* text = nullptr;
  ASSERT_EQ(colibri_text_open(COLIBRI_SOURCE_DIR "/models/colibri-tales-14m-q8_0.gguf", nullptr, &text, nullptr),
            COLIBRI_OK);
  const std::string all = "Once upon a t\xc3\xadme \xf0\x9f\x90\xa6!";
  colibri_ids ids{};
  ASSERT_EQ(colibri_tokenize(text, all.data(), all.size(), 0, &ids, nullptr), COLIBRI_OK);
  std::string joined;
  colibri_string bytes{};
  for (size_t i = 0; i < ids.size; ++i) {
    ASSERT_EQ(colibri_token_bytes(text, ids.data[i], &bytes, nullptr), COLIBRI_OK);
    joined.append(bytes.data, bytes.size);
    colibri_string_free(&bytes);
  }
  EXPECT_EQ(joined, all);
  colibri_error error{};
  for (const int32_t outside : {-1, 4096, 1 << 30}) {
    EXPECT_EQ(colibri_token_bytes(text, outside, &bytes, &error), COLIBRI_USAGE) << outside;
    EXPECT_NE(std::string(error.message).find(std::to_string(outside)), std::string::npos) << error.message;
  }
  colibri_ids_free(&ids);
  colibri_text_close(text);
}

TEST_F(CApi, AnEngineOpenedWithoutTextHasNone) {
  colibri_options options;
  colibri_options_init(&options);
  options.without_text = 1;
  colibri_engine* engine = nullptr;
  ASSERT_EQ(colibri_open(COLIBRI_SOURCE_DIR "/models/colibri-tales-14m-q8_0.gguf", &options, &engine, &error_),
            COLIBRI_OK);
  EXPECT_EQ(colibri_engine_text(engine), nullptr);
  colibri_close(engine);
}

}  // namespace
