#include "service/store/keyspace/revisions.h"

#include <cstdint>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(RevisionsTest, WhatEndsAtOnceIsTold) {
  Revisions revisions;
  EXPECT_EQ(revisions.told(), 0u);

  EXPECT_EQ(revisions.Next(), 1u);
  EXPECT_EQ(revisions.Next(), 2u);

  EXPECT_EQ(revisions.told(), 2u);
}

TEST(RevisionsTest, OneThatIsUnderWayHoldsBackAllAfterIt) {
  Revisions revisions;
  const uint64_t first = revisions.Next();
  revisions.Begin(first);
  revisions.Begin(first);
  const uint64_t second = revisions.Next();
  revisions.Begin(second);

  revisions.End(second);
  EXPECT_EQ(revisions.told(), first - 1);
  revisions.End(first);
  EXPECT_EQ(revisions.told(), first - 1);
  revisions.End(first);
  EXPECT_EQ(revisions.told(), second);
}

TEST(RevisionsTest, RaisedOnesAreToldWhenThoseBelowHaveEnded) {
  Revisions revisions;
  const uint64_t first = revisions.Next();
  revisions.Begin(first);

  revisions.Raise(1000);

  EXPECT_EQ(revisions.told(), first - 1);
  revisions.End(first);
  EXPECT_EQ(revisions.told(), 1000u);
  revisions.Raise(10);
  EXPECT_EQ(revisions.Next(), 1001u);
}

TEST(RevisionsTest, ToldIsBelowTheFirstUnderWayInWhateverOrderTheyEnd) {
  std::mt19937 random(1);
  Revisions revisions;
  std::map<uint64_t, int> under_way;
  uint64_t told = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (under_way.empty() || random() % 100 < (i < 5'000 ? 55 : 45)) {
      const uint64_t revision = revisions.Next();
      for (unsigned n = random() % 3; n > 0; --n) {
        revisions.Begin(revision);
        ++under_way[revision];
      }
    } else {
      auto it = std::next(under_way.begin(), random() % under_way.size());
      const uint64_t all = random() % 2 == 0 ? it->second : 1;
      revisions.End(it->first, all);
      if ((it->second -= all) == 0) under_way.erase(it);
    }

    ASSERT_EQ(revisions.told(), under_way.empty()
                                    ? revisions.last()
                                    : under_way.begin()->first - 1);
    ASSERT_GE(revisions.told(), told);
    told = revisions.told();
  }
}

}  // namespace
}  // namespace tensorkv
