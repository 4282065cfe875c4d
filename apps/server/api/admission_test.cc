#include "admission.h"

#include <gtest/gtest.h>

#include <vector>

#include "expert_frames.h"
#include "openapi.h"
#include "workers.h"

namespace colibri::server {
namespace {

TEST(Admission, BoundsThoseThatWaitAndCountsThem) {
  Admission admission(2, 1);
  auto first = admission.enter();
  first->begin();
  auto second = admission.enter(), third = admission.enter();
  ASSERT_TRUE(second && third);
  EXPECT_TRUE(admission.full());
  EXPECT_FALSE(admission.enter());
  EXPECT_EQ(2U, admission.waiting());
  EXPECT_EQ(1U, admission.running());
  second.reset();
  EXPECT_TRUE(admission.enter());
  first.reset();
  third.reset();
  EXPECT_EQ(0U, admission.waiting() + admission.running());
}

TEST(Admission, WithFreePlacesNobodyIsTurnedAway) {
  Admission admission(0, 2);
  auto first = admission.enter(), second = admission.enter();
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(admission.enter());
}

TEST(Admission, AsManyAsRunAndWaitMayComeAtOnce) {
  Admission admission(3, 2);
  std::vector<std::unique_ptr<Admission::Place>> places;
  for (int i = 0; i < 5; ++i) places.push_back(admission.enter());
  EXPECT_TRUE(places.back());
  EXPECT_FALSE(admission.enter());
  places[0]->begin();
  EXPECT_FALSE(admission.enter());
}

TEST(Admission, RetryAfterFollowsWhatRequestsTake) {
  Admission admission(8, 2);
  EXPECT_EQ(1, admission.retry_after_s()) << "nothing is known";
  auto place = admission.enter();
  place->begin();
  place->finish(20);
  place.reset();
  EXPECT_EQ(10, admission.retry_after_s()) << "two places, 20 seconds each";
  std::vector<std::unique_ptr<Admission::Place>> waiting;
  for (int i = 0; i < 8; ++i) waiting.push_back(admission.enter());
  EXPECT_EQ(60, admission.retry_after_s()) << "at most a minute";
}

TEST(Workers, DoWhatWasQueuedBeforeTheyStopAndDropTheRest) {
  int done = 0;
  Workers workers(1);
  for (int i = 0; i < 100; ++i) workers.run([&done] { ++done; });
  workers.stop();
  EXPECT_EQ(100, done);
  workers.run([&done] { ++done; });
  EXPECT_EQ(100, done);
}

TEST(ExpertFrames, TellWhatChangedAndNothingWhenNothingDid) {
  ExpertFrames frames({1, 9, {3}, 2, 1000});
  ExpertSnapshot snapshot;
  snapshot.activations.assign(9, 0);
  snapshot.residency.assign(9, 0);
  snapshot.activations[1] = 5;
  snapshot.residency[8] = 1;
  snapshot.residency[0] = 2;
  snapshot.seconds = 1;
  const auto first = frames.next(snapshot);
  ASSERT_TRUE(first);
  EXPECT_EQ((json::array{3}), first->at("layer_numbers"));
  EXPECT_EQ(json::value(base64(std::string("\0\0\0\0\5\0\0\0", 8) + std::string(28, '\0'))), first->at("total"));
  EXPECT_EQ(json::value(base64(std::string(18, '\0'))), first->at("activations"))
      << "nothing happened before the first frame";
  EXPECT_EQ(json::value(base64(std::string("\0\1", 2))), first->at("resident"));
  EXPECT_EQ(json::value(base64(std::string("\1\0", 2))), first->at("reading"));
  EXPECT_FALSE(frames.next(snapshot));
  snapshot.activations[1] += 70000;
  snapshot.seconds = 3;
  snapshot.hits = 3;
  snapshot.misses = 1;
  snapshot.tokens = 10;
  snapshot.bytes_read = 4000;
  const auto second = frames.next(snapshot);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->contains("total"));
  EXPECT_EQ(json::value(base64(std::string("\0\0\xff\xff", 4) + std::string(14, '\0'))), second->at("activations"))
      << "saturates";
  EXPECT_EQ(0.75, second->at("hit_rate"));
  EXPECT_EQ(400.0, second->at("bytes_per_token"));
  EXPECT_EQ(5.0, second->at("tokens_per_second"));
  EXPECT_EQ(2000.0, second->at("read_bytes_per_second"));
}

TEST(ExpertFrames, Base64) {
  EXPECT_EQ("", base64(""));
  EXPECT_EQ("YQ==", base64("a"));
  EXPECT_EQ("YWI=", base64("ab"));
  EXPECT_EQ("YWJj", base64("abc"));
}

TEST(OpenApi, IsWhole) {
  const json::value description = openapi_description();
  EXPECT_EQ("3.1.0", description.at("openapi"));
  EXPECT_TRUE(description.at("paths").get_object().contains("/v1/chat/completions"));
}

}  // namespace
}  // namespace colibri::server
