#include "service/store/keyspace/pull/value_token.h"

#include <string>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(ValueTokenTest, IsReadAsItWasWritten) {
  const ValueToken token = {1, 2, 3, 4, DType::kBF16};

  const auto read = ValueToken::Parse(token.ToString());

  ASSERT_TRUE(read);
  EXPECT_EQ(read->ToString(), token.ToString());
  EXPECT_EQ(read->version, 3);
  EXPECT_EQ(read->dtype, DType::kBF16);
  EXPECT_LE(token.ToString().size(), 64);
}

TEST(ValueTokenTest, WhatNoNamespaceHasGivenIsNone) {
  const std::string token = ValueToken{1, 2, 3, 4, DType::kF32}.ToString();

  EXPECT_FALSE(ValueToken::Parse(""));
  EXPECT_FALSE(ValueToken::Parse(token + "x"));
  EXPECT_FALSE(ValueToken::Parse(token.substr(1)));
  EXPECT_FALSE(ValueToken::Parse("\2" + token.substr(1)));
}

// Names with equal hashes are easily found where the hash is known.
TEST(ValueTokenTest, EachLifeOfANamespaceHasANumberAndAHashOfItsOwn) {
  const TokenNumbers one;
  const TokenNumbers other;

  EXPECT_NE(one.incarnation(), other.incarnation());
  EXPECT_NE(one.HashOf("w"), other.HashOf("w"));
  EXPECT_EQ(one.HashOf("w"), one.HashOf("w"));
}

}  // namespace
}  // namespace tensorkv
