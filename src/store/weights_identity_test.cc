#include "store/weights_identity.h"

#include "formats/test_files.h"
#include "platform/folder.h"

namespace colibri::store {
namespace {

class WeightsIdentity : public formats::FolderTest {
 protected:
  static constexpr int64_t kTime = 1'700'000'000'123'456'789;

  std::string model() const {
    return formats::safetensors_file(R"({"a": {"dtype": "F32", "shape": [20000], "data_offsets": [0, 80000]}})", 80000);
  }
  uint64_t identity_of(const std::string& bytes, int64_t modified_ns = kTime, const char* name = "model.safetensors") {
    write(name, bytes);
    platform::set_modified(path(name), modified_ns);
    return weights_identity(formats::open_catalog(path(name)).value()).value();
  }
};

TEST_F(WeightsIdentity, IsThatOfTheBytesWhereverTheyLie) {
  EXPECT_EQ(identity_of(model()), identity_of(model(), kTime, "moved.safetensors"));
}

TEST_F(WeightsIdentity, OtherWeightsInTheSamePlacesAreAnotherModel) {
  const uint64_t before = identity_of(model());
  std::string tuned = model();
  for (size_t i = 200; i < tuned.size(); ++i) tuned[i] = static_cast<char>(tuned[i] ^ 1);
  EXPECT_NE(identity_of(tuned), before) << "even with the same time";
  std::string last = model();
  last.back() = static_cast<char>(last.back() ^ 1);
  EXPECT_NE(identity_of(last), before);
}

TEST_F(WeightsIdentity, AFileThatWasWrittenAgainIsAnotherModel) {
  EXPECT_NE(identity_of(model()), identity_of(model(), kTime + 1))
      << "its samples may be the same, the rest need not be";
}

}  // namespace
}  // namespace colibri::store
