#include "kernels/expression/expression.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expression/parser.h"
#include "kernels/expression/run_pack.h"
#include "kernels/ops/adam.h"
#include "tests/kernels/expression/program_model.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using expression::BitsOf;
using expression::ElementProgram;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelNames;
using testing::ModelProgram;
using testing::RandomPrograms;
using testing::StatusIs;

using Numbers = std::vector<double>;

Expression Compile(absl::string_view text,
                   const std::vector<std::string>& hyperparameters = {}) {
  absl::StatusOr<Expression> compiled =
      Expression::Compile(text, hyperparameters);
  EXPECT_TRUE(compiled.ok()) << compiled.status() << "\n" << text;
  return *std::move(compiled);
}

// One element before an update, and after.
template <typename T>
struct Element {
  T stored = 0;
  T grad = 0;
  std::vector<T> states;

  void Update(const ElementProgram<T>& program) {
    T slots[expression::kNumSlots][1] = {{stored}, {grad}};
    for (size_t i = 0; i < states.size(); ++i) {
      slots[expression::kFirstStateSlot + i][0] = states[i];
    }
    RunPack(program, slots);
    stored = slots[expression::kStoredSlot][0];
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = slots[expression::kFirstStateSlot + i][0];
    }
  }
};

struct Case {
  std::string text;
  double expected;
};

// With stored = 5, grad = 3, h = 0.5 in the second update.
TEST(ExpressionTest, ComputesWhatIsWritten) {
  const Case kCases[] = {
      {"stored += input * 2", 11},
      {"stored -= h * grad", 3.5},
      {"stored = 1 + 2 * 3 - 8 / 4", 5},
      {"stored = 20 - 3 - 2", 15},
      {"stored = 24 / 3 / 2", 4},
      {"stored = (1 + 2) * 3", 9},
      {"stored = -grad + +2", -1},
      {"stored = 2 - -grad", 5},
      {"stored *= grad", 15},
      {"stored /= grad - 1", 2.5},
      {"stored = grad < 3", 0},
      {"stored = grad <= 3", 1},
      {"stored = grad > 2 + 1", 0},
      {"stored = grad >= 3", 1},
      {"stored = (grad == 3) + (grad != 3)", 1},
      {"stored = select(grad > stored, 1, 2)", 2},
      {"stored = min(grad, 2) + max(grad, 4)", 6},
      {"stored = abs(-grad) + sign(-grad)", 2},
      {"stored = sqrt(grad + 1) * rsqrt(grad + 1)", 1},
      {"stored = clip(stored, 0, 4) + clip(-stored, -1, 1)", 3},
      {"stored = exp(grad - 3) + log(grad / 3)", 1},
      {"stored = pow(grad, 2) + pow(2, grad)", 17},
      {"stored = step", 2},
      {"stored = select(step == 1, 7, 8) * h", 4},
      {"stored = 1e2 + .5 + 2. + 1.5E-1", 102.65},
      {"a = grad; a *= a; stored = a", 9},
      {"grad = clip(grad, -1, 1)\n\n; stored -= grad", 4},
      {"stored = ( # in parentheses, a line ends nothing\n 1 +\n grad )", 4},
      {"# a comment\nstored = 1 # another\n", 1},
      {"stored = stored", 5},
      {"stored = grad", 3},
      {"stored = " + std::string(32, '(') + "grad" + std::string(32, ')'), 3},
      {"stored = " + std::string(32, '-') + "grad", 3},
  };
  for (const auto& [text, expected] : kCases) {
    const bool reads_h =
        absl::StrContains(text, "h *") || absl::StrContains(text, "* h");
    const Expression expression =
        reads_h ? Compile(text, {"h"}) : Compile(text);
    const Numbers h = reads_h ? Numbers{0.5} : Numbers{};
    Element<double> element = {.stored = 5, .grad = 3};
    element.Update(expression.Bind<double>(h, 2));
    EXPECT_EQ(element.stored, expected) << text;
  }
}

TEST(ExpressionTest, KeepsStates) {
  const Expression momentum =
      Compile("state m; m = beta*m + grad; stored -= lr*m", {"beta", "lr"});
  EXPECT_THAT(momentum.states(), ElementsAre("m"));
  Element<float> element = {.stored = 8, .grad = 2, .states = {4}};
  element.Update(momentum.Bind<float>({0.5, 0.25}, 1));
  EXPECT_EQ(element.states[0], 4);
  EXPECT_EQ(element.stored, 7);
}

TEST(ExpressionTest, ResultsMayChangePlaces) {
  const Expression turn =
      Compile("state a, b; old = stored; stored = a; a = b; b = old");
  Element<float> element = {.stored = 1, .states = {2, 3}};
  element.Update(turn.Bind<float>({}, 1));
  EXPECT_EQ(element.stored, 2);
  EXPECT_THAT(element.states, ElementsAre(3, 1));
}

using Refusals = std::vector<std::pair<std::string, std::string>>;

void ExpectRefused(const Refusals& refusals) {
  for (const auto& [text, message] : refusals) {
    const std::vector<std::string> names = {"lr"};
    EXPECT_THAT(
        Expression::Compile(text, names),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
}

// The tables of what is refused: where, and in which words.
TEST(ExpressionTest, ErrorsOfWritingSayWhereAndWhat) {
  ExpectRefused({
      {"", "line 1, column 1: expected an assignment to stored"},
      {"stored += grad *",
       "line 1, column 17: expected a number, a name or "
       "\"(\", got the end"},
      {"stored = 1\nstored = 2 $ 3",
       "line 2, column 12: expected a name, a number or an operator, got "
       "\"$\""},
      {"stored = \xff",
       "column 10: expected a name, a number or an operator, "
       "got \"\\xff\""},
      {"stored = 1e999", "column 10: expected a finite number, got \"1e999\""},
      {"stored = 2 grad", "column 12: expected an operator or the end"},
      {"stored = grad < 1 < 2", "column 19: expected an operator or the end"},
      {"stored = (1 + 2", "column 16: expected an operator or \")\""},
      {"stored = 1)", "column 11: expected an operator or the end"},
      {"stored = sin(1)",
       "column 10: expected a function out of abs, clip, "
       "exp, log, max, min, pow, rsqrt, select, sign, "
       "sqrt, got \"sin\""},
      {"stored = exp", "column 13: expected \"(\" after exp, got the end"},
      {"stored = max(1)", "column 15: expected 2 arguments of max, got \")\""},
      {"stored = abs(1, 2)",
       "column 15: expected \")\" after 1 arguments of "
       "abs, got \",\""},
      {"stored ? 1", "column 8: expected a name, a number or an operator"},
      {"stored 1", "column 8: expected =, +=, -=, *= or /=, got \"1\""},
      {"1 = stored", "column 1: expected the name of what is assigned"},
      {"exp = 1", "column 1: expected the name of what is assigned"},
      {"step = 1", "which an update cannot change"},
      {"lr = 1", "\"lr\", which an update cannot change"},
  });
}

TEST(ExpressionTest, ErrorsOfNamesSayWhereAndWhat) {
  ExpectRefused({
      {"stored = grad * rate",
       "column 17: expected stored, grad, step, a "
       "hyperparameter that the rule sets, a state "
       "that is declared, or a name assigned before, "
       "got \"rate\""},
      {"m += grad; stored = m", "column 1: expected stored, grad, step"},
      {"state m; stored = m",
       "column 7: expected a state that the "
       "expression assigns, got \"m\""},
      {"state lr; stored = 1", "column 7: expected a state of a name"},
      {"state m, m; m = 1; stored = 1",
       "column 10: expected a state of a "
       "name"},
      {"state a, b, c, d, e; stored = 1",
       "column 19: expected at most 4 "
       "states, got 5"},
      {"state input; stored = 1", "column 7: expected a state of a name"},
      {"state; stored = 1", "column 6: expected the name of a state"},
      {"stored = 1",
       "expected hyperparameters that the expression reads, got "
       "\"lr\""},
  });
}

TEST(ExpressionTest, TooMuchIsRefused) {
  const std::string kLong(expression::kMaxTextBytes + 1, ' ');
  std::string many_operations = "stored = grad";
  std::string many_scalars = "stored = grad";
  for (int i = 0; i <= expression::kMaxInstructions; ++i) {
    absl::StrAppend(&many_operations, "+", i, "*grad");
    if (i <= expression::kMaxScalars) absl::StrAppend(&many_scalars, "+", i);
  }
  many_operations.resize(expression::kMaxTextBytes, ' ');
  std::string many_values = "stored = ";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&many_values, "grad*", i, "-(");
  absl::StrAppend(&many_values, "grad", std::string(20, ')'));
  ExpectRefused({
      {kLong, "expected at most 4096 bytes, got 4097"},
      {"stored = lr + " + std::string(33, '-') + "1",
       "column 47: expected at most 32 paren"},
      {"stored = lr + " + std::string(33, '(') + "1" + std::string(33, ')'),
       "column 47: expected at most 32 paren"},
      {"stored = lr + " + std::string(32, '-') + "abs(1)",
       "column 47: expected at most 32 paren"},
      {many_operations, "expected at most 256 operations"},
      {many_scalars + "+lr", "expected at most 64 numbers"},
      {many_values + "+lr", "expected at most 16 values"},
  });
}

TEST(ExpressionTest, HyperparametersAreChecked) {
  const std::pair<std::vector<std::string>, std::string> kCases[] = {
      {{"stored"}, "no other meaning, got \"stored\""},
      {{"exp"}, "no other meaning, got \"exp\""},
      {{"input"}, "no other meaning, got \"input\""},
      {std::vector<std::string>(17, "a"), "at most 16 hyperparameters"},
  };
  for (const auto& [names, message] : kCases) {
    EXPECT_THAT(
        Expression::Compile("stored = 1", names),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

template <typename T>
class ExpressionModelTest : public ::testing::Test {
 protected:
  // NaN of any kind is NaN.
  static bool IsSame(T a, T b) {
    return BitsOf(a) == BitsOf(b) || (std::isnan(a) && std::isnan(b)) ||
           (a == 0 && b == 0);  // min of -0 and 0 may be either
  }

  T Draw() {
    static const T kSpecial[] = {0,
                                 -0.0f,
                                 1,
                                 -1,
                                 std::numeric_limits<T>::infinity(),
                                 std::numeric_limits<T>::quiet_NaN(),
                                 std::numeric_limits<T>::denorm_min(),
                                 std::numeric_limits<T>::max()};
    if (random_() % 8 == 0) return kSpecial[random_() % 8];
    return std::ldexp(T(int64_t(random_() >> 30)) - T(1LL << 33),
                      int(random_() % 8) - 34);
  }

  void Check(const ModelProgram& model) {
    const std::string text = model.Text();
    const absl::StatusOr<Expression> compiled =
        Expression::Compile(text, std::vector<std::string>{"h0", "h1"});
    if (!compiled.ok()) {
      ++num_refused_;
      EXPECT_THAT(compiled, StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("expected at most")))
          << text;
      return;
    }
    const uint64_t step = 1 + random_() % 1000;
    const Numbers h = {static_cast<double>(Draw()), 0.1};
    Element<T> element = {Draw(), Draw(), {}};
    ModelNames<T> names = {{"h0", {.scalar = h[0]}},
                           {"h1", {.scalar = h[1]}},
                           {"step", {.scalar = double(step)}},
                           {"stored", {false, 0, element.stored}},
                           {"grad", {false, 0, element.grad}},
                           {"input", {false, 0, element.grad}}};
    for (int i = 0; i < model.num_states; ++i) {
      element.states.push_back(Draw());
      names[ModelProgram::State(i)] = {false, 0, element.states[i]};
    }
    element.Update(compiled->Bind<T>(h, step));
    model.Run(names);
    EXPECT_TRUE(IsSame(element.stored, names["stored"].as_element()))
        << text << "\n"
        << element.stored << " " << names["stored"].as_element();
    for (int i = 0; i < model.num_states; ++i) {
      const T expected = names[ModelProgram::State(i)].as_element();
      EXPECT_TRUE(IsSame(element.states[i], expected))
          << text << "\n"
          << i << ": " << element.states[i] << " " << expected;
    }
  }

  std::mt19937_64 random_{3};
  int num_refused_ = 0;
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ExpressionModelTest, Types);

TYPED_TEST(ExpressionModelTest, RandomProgramsAreWhatTheirTreesSay) {
  constexpr int kNumPrograms = testing::FewerIfSanitized(5'000);
  RandomPrograms programs(7);
  for (int i = 0; i < kNumPrograms && !this->HasFailure(); ++i) {
    this->Check(programs.Next());
  }
  EXPECT_LT(this->num_refused_, kNumPrograms / 10);
}

TEST(ExpressionTest, AdamEqualsTheRule) {
  const Expression adam = Compile(
      "state m, v\n"
      "m = beta1*m + (1 - beta1)*grad\n"
      "v = beta2*v + (1 - beta2)*(grad*grad)\n"
      "lr_t = lr * sqrt(1 - pow(beta2, step)) / (1 - pow(beta1, step))\n"
      "stored -= lr_t * m / (sqrt(v) + epsilon)",
      {"beta1", "beta2", "epsilon", "lr"});
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  const double own[] = {0.9, 0.999, 1e-8};
  Element<float> element = {.stored = 1, .states = {0, 0}};
  float w = 1, m = 0, v = 0;
  for (uint64_t t = 1; t <= 2000; ++t) {
    element.grad = normal(random);
    element.Update(adam.Bind<float>({0.9, 0.999, 1e-8, 0.01}, t));
    float states[] = {m, v};
    w = ops::Adam<float>::Create(
        {.learning_rate = 0.01, .own = own, .update_count = t})(w, element.grad,
                                                                states);
    m = states[0];
    v = states[1];
    ASSERT_LE(std::abs(element.stored - w),
              std::abs(std::nextafter(w, HUGE_VALF) - w))
        << t;
    EXPECT_EQ(element.states[0], m);
    EXPECT_EQ(element.states[1], v);
    w = element.stored;
  }
}

}  // namespace
}  // namespace tensorkv
