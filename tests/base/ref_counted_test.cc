#include "base/ref_counted.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Counts how many of its kind are alive.
class Base : public RefCounted {
 public:
  explicit Base(int* num_alive) : num_alive_(num_alive) { ++*num_alive_; }
  ~Base() override { --*num_alive_; }

  int value = 0;

 private:
  int* const num_alive_;
};

class Derived final : public Base {
 public:
  using Base::Base;
};

class RefPtrTest : public ::testing::Test {
 protected:
  RefPtr<Base> Make() { return MakeRefCounted<Base>(&num_alive_); }

  int num_alive_ = 0;
};

TEST_F(RefPtrTest, LastPointerDestroysTheObject) {
  RefPtr<Base> first = Make();
  RefPtr<Base> second = first;

  first = nullptr;
  EXPECT_EQ(num_alive_, 1);

  second = nullptr;
  EXPECT_EQ(num_alive_, 0);
}

TEST_F(RefPtrTest, MoveLeavesNullAndAddsNoReference) {
  RefPtr<Base> source = Make();

  const RefPtr<Base> target = std::move(source);

  EXPECT_FALSE(source);
  EXPECT_TRUE(target->IsUnique());
}

TEST_F(RefPtrTest, AssignmentDestroysTheObjectBefore) {
  RefPtr<Base> pointer = Make();

  pointer = Make();

  EXPECT_EQ(num_alive_, 1);
}

TEST_F(RefPtrTest, SelfAssignmentKeepsTheObject) {
  RefPtr<Base> pointer = Make();
  RefPtr<Base>& same = pointer;

  pointer = same;
  pointer = std::move(same);

  EXPECT_EQ(num_alive_, 1);
  EXPECT_TRUE(pointer->IsUnique());
}

TEST_F(RefPtrTest, ConvertsToBaseAndDestroysTheDerivedObject) {
  RefPtr<Base> pointer = MakeRefCounted<Derived>(&num_alive_);
  EXPECT_EQ(num_alive_, 1);

  pointer = nullptr;

  EXPECT_EQ(num_alive_, 0);
}

TEST_F(RefPtrTest, ReleaseGivesUpTheReferenceWithoutDroppingIt) {
  RefPtr<Base> pointer = Make();

  Base* const raw = pointer.release();

  EXPECT_FALSE(pointer);
  EXPECT_EQ(num_alive_, 1);
  raw->Unref();
  EXPECT_EQ(num_alive_, 0);
}

TEST_F(RefPtrTest, IsUniqueOnlyWithOneReference) {
  const RefPtr<Base> first = Make();
  EXPECT_TRUE(first->IsUnique());

  RefPtr<Base> second = first;
  EXPECT_FALSE(first->IsUnique());

  second = nullptr;
  EXPECT_TRUE(first->IsUnique());
}

// ThreadSanitizer sees a race here if IsUnique does not synchronise with the
// release by the readers.
TEST_F(RefPtrTest, UniqueOwnerMayWriteWhatOthersHaveRead) {
  constexpr int kNumReaders = 4;
  RefPtr<Base> owner = Make();
  std::vector<int> seen(kNumReaders, -1);
  std::vector<std::thread> readers;
  for (int i = 0; i < kNumReaders; ++i) {
    readers.emplace_back([reader = owner, &result = seen[i]]() mutable {
      result = reader->value;
      reader = nullptr;
    });
  }

  while (!owner->IsUnique()) std::this_thread::yield();
  owner->value = 1;

  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(seen, std::vector<int>(kNumReaders, 0));
}

}  // namespace
}  // namespace tensorkv
