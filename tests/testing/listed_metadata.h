// What tensorkv/v1/error.proto lists for each reason, read from its comments.

#ifndef TENSORKV_TESTS_TESTING_LISTED_METADATA_H_
#define TENSORKV_TESTS_TESTING_LISTED_METADATA_H_

#include <set>
#include <string>
#include <vector>

#include "contract/reason.h"

namespace tensorkv::testing {

// The names in one pair of braces.
struct MetadataForm {
  std::set<std::string> required;
  // Those with a question mark.
  std::set<std::string> optional;

  // Whether a status with just these has it.
  bool Has(const std::set<std::string>& names) const;
};

// The forms of a reason, of which a status has one: never none.
const std::vector<MetadataForm>& MetadataOf(Reason reason);

// All names that the comment on the metadata explains.
const std::set<std::string>& MetadataNames();

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_LISTED_METADATA_H_
