#include "service/server/memory_size.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(MemorySizeTest, IsThatOfAMachine) {
  EXPECT_GT(MemorySizeBytes(), uint64_t{1} << 26);
  EXPECT_LT(MemorySizeBytes(), uint64_t{1} << 50);
}

// Sets the limit of a cgroup below `root`.
void Limit(const std::string& root, const std::string& cgroup,
           const std::string& limit) {
  std::filesystem::create_directories(root + cgroup);
  std::ofstream(root + cgroup + "/memory.max") << limit << "\n";
}

uint64_t LimitOf(const std::string& root, const std::string& membership) {
  std::istringstream text(membership);
  return CgroupLimitBytes(root, text);
}

TEST(CgroupLimitTest, IsTheLeastOfTheCgroupAndThoseAboveIt) {
  const std::string root = ::testing::TempDir() + "/cgroups";
  Limit(root, "/system.slice", "3000");
  Limit(root, "/system.slice/tensorkv.service", "max");
  Limit(root, "/system.slice/other.service", "2000");

  EXPECT_EQ(LimitOf(root, "1:cpu:/x\n0::/system.slice/tensorkv.service\n"),
            3000u);
  EXPECT_EQ(LimitOf(root, "0::/system.slice/other.service\n"), 2000u);
  EXPECT_EQ(LimitOf(root, "0::/\n"), UINT64_MAX);
  EXPECT_EQ(LimitOf(root, ""), UINT64_MAX);

  Limit(root, "", "1000");  // a container's own
  EXPECT_EQ(LimitOf(root, "0::/of/the/host\n"), 1000u);
  EXPECT_EQ(LimitOf(root, "1:memory:/x\n"), 1000u);
}

}  // namespace
}  // namespace tensorkv
