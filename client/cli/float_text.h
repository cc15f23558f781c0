// Floats in as few decimal digits as tell them from their neighbours, written
// as NumPy writes them.
//
// "Shortest" is meant among the values of a dtype: 0.1 in f16 is "0.1", though
// its exact value is 0.0999755859375. Pure functions, thread-safe.

#ifndef TENSORKV_CLIENT_CLI_FLOAT_TEXT_H_
#define TENSORKV_CLIENT_CLI_FLOAT_TEXT_H_

#include <string>

#include "tensor/dtype.h"

namespace tensorkv {

// How NumPy prints a scalar: "2.0", "1e-05", "nan", "-inf". With all digits
// that the dtype needs; where it is finite, valid JSON.
std::string ScalarText(double value, DType dtype);

// Without exponent, with at most `max_fraction` digits after the point and no
// zeros at the end: "0.25", "2.".
// REQUIRES: value is finite and a value of `dtype`, a float type.
std::string PositionalText(double value, DType dtype, int max_fraction);

// How many digits of `value` after the point of its scientific form are worth
// printing, at most `max_fraction`: 2 for 1.25e-05.
// REQUIRES: as PositionalText.
int ScientificFraction(double value, DType dtype, int max_fraction);

// With exactly `fraction` digits after the point and at least
// `exponent_digits` in the exponent: "1.250e-05".
// REQUIRES: value is finite.
std::string ScientificText(double value, int fraction, int exponent_digits);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_FLOAT_TEXT_H_
