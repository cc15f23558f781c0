// What expressions mean, told in another way: random trees that print
// themselves and compute themselves node by node.

#ifndef TENSORKV_TESTS_KERNELS_EXPRESSION_PROGRAM_MODEL_H_
#define TENSORKV_TESTS_KERNELS_EXPRESSION_PROGRAM_MODEL_H_

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/expression/element_math.h"

namespace tensorkv::testing {

// A number that depends on hyperparameters and the update count alone, or one
// of an element.
template <typename T>
struct ModelValue {
  bool is_scalar = true;
  double scalar = 0;
  T element = 0;

  T as_element() const { return is_scalar ? static_cast<T>(scalar) : element; }
};

template <typename T>
using ModelNames = std::map<std::string, ModelValue<T>>;

struct ModelTree {
  // A number, a name, an operator or a function.
  std::string word;
  std::vector<ModelTree> parts;

  std::string Text() const {
    if (parts.empty()) return word;
    if (std::isalpha(word[0])) {
      std::string text = absl::StrCat(word, "(", parts[0].Text());
      for (size_t i = 1; i < parts.size(); ++i) {
        absl::StrAppend(&text, ", ", parts[i].Text());
      }
      return text + ")";
    }
    if (parts.size() == 1) return absl::StrCat("(", word, parts[0].Text(), ")");
    return absl::StrCat("(", parts[0].Text(), " ", word, " ", parts[1].Text(),
                        ")");
  }

  template <typename T>
  ModelValue<T> Compute(const ModelNames<T>& names) const {
    if (parts.empty()) {
      if (std::isdigit(word[0])) return {.scalar = std::stod(word)};
      return names.at(word);
    }
    bool is_scalar = true;
    std::vector<double> scalars;
    std::vector<T> elements;
    for (const ModelTree& part : parts) {
      const ModelValue<T> value = part.Compute(names);
      is_scalar = is_scalar && value.is_scalar;
      scalars.push_back(value.scalar);
      elements.push_back(value.as_element());
    }
    if (is_scalar) return {.scalar = Combine(scalars)};
    return {.is_scalar = false, .element = Combine(elements)};
  }

 private:
  template <typename T>
  T Combine(const std::vector<T>& x) const {
    if (word == "-" && x.size() == 1) return -x[0];
    if (word == "+") return x[0] + x[1];
    if (word == "-") return x[0] - x[1];
    if (word == "*") return x[0] * x[1];
    if (word == "/") return x[0] / x[1];
    if (word == "<") return x[0] < x[1];
    if (word == "<=") return x[0] <= x[1];
    if (word == ">") return x[0] > x[1];
    if (word == ">=") return x[0] >= x[1];
    if (word == "==") return x[0] == x[1];
    if (word == "!=") return x[0] != x[1];
    if (word == "abs") return std::fabs(x[0]);
    if (word == "sqrt") return std::sqrt(x[0]);
    if (word == "rsqrt") return 1 / std::sqrt(x[0]);
    if (word == "select") return x[0] != 0 ? x[1] : x[2];
    if (word == "min") return Least(x[0], x[1]);
    if (word == "max") return -Least(-x[0], -x[1]);
    if (word == "clip") return Least(-Least(-x[0], -x[1]), x[2]);
    if (word == "sign") {
      return std::isnan(x[0]) || x[0] == 0 ? x[0] : std::copysign(T(1), x[0]);
    }
    // Their accuracy has tests of its own.
    if (word == "exp") return expression::Exp(x[0]);
    if (word == "log") return expression::Log(x[0]);
    return expression::Pow(x[0], x[1]);
  }

  template <typename T>
  static T Least(T a, T b) {
    if (std::isnan(a)) return a;
    return std::isnan(b) || b <= a ? b : a;
  }
};

struct ModelStatement {
  std::string target;
  std::string assignment;  // "=" or "+=" and the like
  ModelTree tree;
};

struct ModelProgram {
  int num_states = 0;
  std::vector<ModelStatement> statements;

  static std::string State(int index) { return absl::StrCat("s", index); }

  std::string Text() const {
    std::string text;
    for (int i = 0; i < num_states; ++i) {
      absl::StrAppend(&text, i == 0 ? "state " : ", ", State(i));
    }
    for (const ModelStatement& one : statements) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", one.target, " ",
                      one.assignment, " ", one.tree.Text());
    }
    return text;
  }

  template <typename T>
  void Run(ModelNames<T>& names) const {
    for (const auto& [target, assignment, tree] : statements) {
      ModelTree whole = tree;
      if (assignment != "=") {
        whole = {assignment.substr(0, 1), {{target, {}}, tree}};
      }
      names[target] = whole.Compute(names);
    }
  }
};

class RandomPrograms {
 public:
  explicit RandomPrograms(uint64_t seed) : random_(seed) {}

  // Reads the hyperparameters h0 and h1.
  ModelProgram Next() {
    ModelProgram program;
    program.num_states = Below(5);
    names_ = {"stored", "grad", "input", "step", "h0", "h1"};
    std::vector<std::string> targets = {"stored"};
    for (int i = 0; i < program.num_states; ++i) {
      targets.push_back(ModelProgram::State(i));
    }
    names_.insert(names_.end(), targets.begin() + 1, targets.end());
    for (int i = Below(5); i > 0; --i) targets.push_back(absl::StrCat("t", i));
    for (int i = Below(4); i > 0; --i) targets.push_back(Pick(targets));
    std::shuffle(targets.begin(), targets.end(), random_);
    for (const std::string& target : targets) {
      const bool is_new =
          std::find(names_.begin(), names_.end(), target) == names_.end();
      static const std::vector<std::string> kAssignments = {
          "=", "+=", "-=", "*=", "/="};
      program.statements.push_back(
          {target, is_new ? "=" : Pick(kAssignments), Tree(Below(5))});
      if (is_new) names_.push_back(target);
    }
    // So that none is unused.
    program.statements.push_back(
        {"stored", "+=", {"*", {{"h0", {}}, {"h1", {}}}}});
    return program;
  }

 private:
  ModelTree Tree(int depth) {
    static const std::vector<std::string> kLeaves = {"0", "1", "2.5", "1e-3"};
    static const std::vector<std::string> kUnary = {
        "-", "abs", "sqrt", "rsqrt", "sign", "exp", "log"};
    static const std::vector<std::string> kBinary = {
        "+", "-",  "*",  "/",  "+",   "*",   "<",  "<=",
        ">", ">=", "==", "!=", "min", "max", "pow"};
    static const std::vector<std::string> kTernary = {"select", "clip"};
    if (depth == 0) return {Below(4) == 0 ? Pick(kLeaves) : Pick(names_), {}};
    switch (Below(6)) {
      case 0:
        return {Pick(kUnary), {Tree(depth - 1)}};
      case 1:
        return {Pick(kTernary),
                {Tree(depth - 1), Tree(Below(depth)), Tree(Below(depth))}};
      default:
        return {Pick(kBinary), {Tree(depth - 1), Tree(Below(depth))}};
    }
  }

  const std::string& Pick(const std::vector<std::string>& from) {
    return from[Below(static_cast<int>(from.size()))];
  }
  int Below(int bound) { return static_cast<int>(random_() % bound); }

  std::mt19937_64 random_;
  std::vector<std::string> names_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_KERNELS_EXPRESSION_PROGRAM_MODEL_H_
