#include "smelt/arch/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace smelt::arch {
namespace {

TEST(Presets, AreTheCellsWhoseGeometryIsKnown) {
  const std::vector<std::string> names = preset_names();
  EXPECT_EQ(names.size(), 28u);
  for (const std::string& name : names) {
    const ModelConfig model = find_model_config(name);
    Problems problems("arch", name);
    validate(model, problems);
    problems.throw_if_any();
    EXPECT_EQ(model.visits(), name.ends_with("-smelt") ? 2 : 1) << name;
  }
}

// Paper section 2: layers 3-7 of 10, 4-9 of 12, 6-15 of 20, 8-22 of 30.
TEST(Presets, LoopTheMiddleHalf) {
  const auto span = [](const char* name) {
    const Loop loop = *find_model_config(name).loop;
    return std::pair(loop.first, loop.last);
  };
  EXPECT_EQ(span("paper/100M-S85-smelt"), std::pair(3l, 7l));
  EXPECT_EQ(span("paper/200M-S95-smelt"), std::pair(4l, 9l));
  EXPECT_EQ(span("paper/600M-S97-smelt"), std::pair(6l, 15l));
  EXPECT_EQ(span("paper/1.6B-S95-smelt"), std::pair(8l, 22l));
}

TEST(Presets, AnUnknownOneListsThem) {
  try {
    find_model_config("paper/200M-S96-baseline");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("paper/200M-S95-baseline"));
  }
}

}  // namespace
}  // namespace smelt::arch
