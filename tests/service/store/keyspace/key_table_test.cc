#include "service/store/keyspace/key_table.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

RefPtr<StoredKey> Key(const std::string& name) {
  return StoredKey::Create(name, DType::kF32, {1});
}

class KeyTableTest : public ::testing::Test {
 protected:
  KeyTableTest() {
    for (const char* name : {"b", "a/2", "c", "a/1", "a/10"}) {
      table_.Insert(Key(name));
    }
  }

  KeyTable table_;
};

TEST_F(KeyTableTest, ErasedKeyStaysUntilItsUpdateHasEnded) {
  std::vector<RefPtr<StoredKey>> released;
  const auto release = [&released](RefPtr<StoredKey> key) {
    released.push_back(std::move(key));
  };
  StoredKey* const key = table_.Find("b");
  key->is_updating = true;
  table_.Erase("a/1");
  table_.Erase("b");

  table_.RecordEndedUpdate();  // of another key
  table_.ReleaseErased(release);
  EXPECT_TRUE(key->IsUnique());
  EXPECT_TRUE(released.empty());

  key->is_updating = false;
  table_.ReleaseErased(release);
  EXPECT_TRUE(released.empty());  // nobody has said so

  table_.RecordEndedUpdate();
  table_.ReleaseErased(release);
  EXPECT_EQ(released.size(), 1u);
  EXPECT_TRUE(key->IsUnique());
}

TEST_F(KeyTableTest, KeepsWhatIsLeftOfMany) {
  const std::string prefix = "many/";
  for (int i = 0; i < 5000; ++i) table_.Insert(Key(absl::StrCat(prefix, i)));
  for (int i = 0; i < 5000; ++i) {
    if (i % 100 != 0) table_.Erase(absl::StrCat(prefix, i));
  }

  EXPECT_EQ(table_.size(), 5u + 50);
  EXPECT_EQ(table_.List(prefix, "", 100).size(), 50u);
  EXPECT_NE(table_.Find("many/4900"), nullptr);
  EXPECT_EQ(table_.Find("many/4901"), nullptr);
}

// Names in one of a few orders, all of them or the first ones; some are of no
// key, or there twice.
std::vector<std::string> NamesOfCall(std::minstd_rand& random) {
  std::minstd_rand order(1 + random() % 6);
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back(absl::StrCat("k", i));
  std::shuffle(names.begin(), names.end(), order);
  if (random() % 3 == 0) names.resize(1 + random() % names.size());
  if (random() % 4 == 0) names[random() % names.size()] = "none";
  if (random() % 4 == 0) names.push_back(names[random() % names.size()]);
  return names;
}

TEST(KeyTableFinderTest, FindsTheKeysOfCallsThatRepeatAndKeysThatCome) {
  std::minstd_rand random(1);
  KeyTable table;
  for (int call = 0; call < 500; ++call) {
    const std::string changed = absl::StrCat("k", random() % 200);
    if (call < 200) table.Insert(Key(absl::StrCat("k", call)));
    if (random() % 10 == 0) table.Erase(changed);
    if (random() % 10 == 0) table.Insert(Key(changed));
    const std::vector<std::string> names = NamesOfCall(random);

    KeyTable::Finder finder(table, names.size());

    for (const std::string& name : names) {
      ASSERT_EQ(finder.Find(name), table.Find(name)) << call << " " << name;
    }
  }
}

}  // namespace
}  // namespace tensorkv
