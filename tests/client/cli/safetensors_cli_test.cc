// Files that import reads and export writes.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/run_cli.h"
#include "client/cli/safetensors_metadata.h"
#include "client/local/local_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"
#include "tests/client/cli/run_on.h"
#include "tests/client/shared_connection.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Outcome;
using ::tensorkv::testing::RunOn;
using ::tensorkv::testing::SharedConnection;
using ::testing::HasSubstr;

class SafetensorsCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  // Runs the words of `line`, in which @ stands for the folder.
  Outcome Run(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    for (std::string& word : words) {
      if (word.substr(0, 1) == "@") word = folder_ + word.substr(1);
    }
    return RunOn([&] { return std::make_unique<SharedConnection>(store_); },
                 words);
  }

  // Expects that the line prints `expected`, and is no error.
  void ExpectPrints(const std::string& line, const std::string& expected) {
    const Outcome outcome = Run(line);
    EXPECT_EQ(outcome.out, expected) << line;
    EXPECT_EQ(outcome.err, "") << line;
  }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }

  // Writes a file with f32 tensors of one element, 1, 2 and so on.
  void WriteTensors(const std::string& name,
                    const std::vector<std::string>& tensors,
                    const std::string& metadata = "") {
    std::vector<SafetensorsEntry> entries;
    std::string elements;
    for (const std::string& tensor : tensors) {
      entries.push_back({tensor, DType::kF32, *Shape::Create({1})});
      const float value = entries.size();
      elements.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    Write(name, WithSafetensorsMetadata(
                    SafetensorsHeader(absl::MakeSpan(entries)), metadata) +
                    elements);
  }

  std::string Metadata(const std::string& name) {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    return SafetensorsMetadata(
        content.substr(0, *SafetensorsHeaderBytes(content)));
  }

  const std::string folder_ = ::testing::TempDir() + "/safetensors";
  LocalConnection store_;
};

TEST_F(SafetensorsCliTest, NamesGetAndLosePrefixes) {
  WriteTensors("m.safetensors", {"model.a", "model.b", "model.c.bias"});

  ExpectPrints(
      "import @/m.safetensors --strip_prefix=model. --add_prefix=run/ "
      "--pattern=model.?",
      "imported 2 keys\n");
  ExpectPrints("pull --prefix=run/", "run/a:\n1.0\nrun/b:\n2.0\n");
  ExpectPrints("export @/out.safetensors -p run/ --strip_prefix run/",
               "exported 2 keys\n");
  ExpectPrints("import @/out.safetensors --prefix=b", "imported 1 keys\n");
  ExpectPrints("pull b", "2.0\n");
  EXPECT_THAT(Run("export @/x.safetensors --strip_prefix=run/").err,
              HasSubstr("that begin with \"run/\", got \"b\""));
}

TEST_F(SafetensorsCliTest, WhatAFileSaysOfItselfIsKept) {
  const std::string metadata = R"({"by":"me","format":"pt"})";
  WriteTensors("m.safetensors", {"a"}, metadata);
  Run("import @/m.safetensors --add_prefix=m/");

  ExpectPrints("export @/out.safetensors --prefix=m/ --strip_prefix=m/",
               "exported 1 keys\n");

  EXPECT_EQ(Metadata("out.safetensors"), metadata);
}

TEST_F(SafetensorsCliTest, AKeyOfThatNameMayHaveSomethingElse) {
  Run("init __metadata__ --shape=2 --dtype=u8 --fill=7");

  ExpectPrints("export @/out.safetensors", "exported 1 keys\n");
  Run("rm __metadata__");
  ExpectPrints("import @/out.safetensors", "imported 1 keys\n");

  ExpectPrints("pull __metadata__", "7 7\n");
}

TEST_F(SafetensorsCliTest, AFolderHasWhatItsIndexSays) {
  WriteTensors("1.safetensors", {"a", "b"}, R"({"format":"pt","part":"1"})");
  WriteTensors("2.safetensors", {"c", "a"}, R"({"part":"2"})");
  WriteTensors("other.safetensors", {"d"});
  Write("m.safetensors.index.json",
        R"({"metadata":{"total_size":12},"weight_map":
            {"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"}})");

  ExpectPrints("import @", "imported 3 keys\n");

  ExpectPrints("pull a b c", "a:\n1.0\nb:\n2.0\nc:\n1.0\n");
  Run("export @/out");
  EXPECT_EQ(Metadata("out"), R"({"format":"pt","part":"1"})");
}

TEST_F(SafetensorsCliTest, AFolderWithoutAnIndexHasItsFiles) {
  WriteTensors("1.safetensors", {"a", "b"});
  WriteTensors("2.safetensors", {"c"});
  Write("config.json", "{}");

  ExpectPrints("import @", "imported 3 keys\n");

  WriteTensors("3.safetensors", {"b"});
  EXPECT_THAT(Run("import @ --on_existing=replace").err,
              HasSubstr("tensor \"b\": it is in"));
}

struct Wrong {
  const char* file;
  const char* content;
  const char* error;
};

TEST_F(SafetensorsCliTest, ErrorsNameTheFile) {
  const std::string index = "m.safetensors.index.json";
  WriteTensors("m.safetensors", {"a"});
  for (const auto& [path, content, error] : std::vector<Wrong>{
           {"model.pt", "PK\x03\x04 and so on", "a zip of torch.save"},
           {"short", "1234567", "at least 8 bytes"},
           {"", "[]", "a \"weight_map\""},
           {"", R"({"weight_map":{"a":"../m.safetensors"}})", "\"../m.safe"},
           {"", R"({"weight_map":{"a":1}})", "got 1"},
           {"", R"({"weight_map":{"b":"m.safetensors"}})", "tensor \"b\""},
           {"", R"({"weight_map":{"b":"n.safetensors"}})", "No such file"}}) {
    Write(*path ? path : index, content);

    const Outcome outcome = Run(absl::StrCat("import @/", path));

    EXPECT_EQ(outcome.exit_code, kExitCallFailed) << content;
    EXPECT_THAT(outcome.err, HasSubstr(error));
    EXPECT_THAT(outcome.err, HasSubstr(folder_));
  }
  EXPECT_THAT(Run("import @/none").err, HasSubstr("No such file"));
  Write("n.safetensors.index.json", "");
  EXPECT_THAT(Run("import @").err,
              HasSubstr("expected one .safetensors.index"));
}

}  // namespace
}  // namespace tensorkv
