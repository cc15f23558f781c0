// Requests about keys, and replies to such.

#ifndef TENSORKV_TESTS_TESTING_KEY_REQUESTS_H_
#define TENSORKV_TESTS_TESTING_KEY_REQUESTS_H_

#include <string>
#include <vector>

#include "contract/requests.h"

namespace tensorkv::testing {

inline DeleteRequest DeleteOf(const std::vector<std::string>& keys,
                              const std::string& name_space = "") {
  DeleteRequest request;
  request.set_namespace_(name_space);
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  return request;
}

inline StatRequest StatOf(const std::vector<std::string>& keys,
                          const std::string& name_space = "") {
  StatRequest request;
  request.set_namespace_(name_space);
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  return request;
}
inline StatRequest DigestsOf(const std::vector<std::string>& keys) {
  StatRequest request = StatOf(keys);
  request.set_compute_digests(true);
  return request;
}

// Returns a page with these keys, about which it says nothing else.
inline ListReply PageOfKeys(const std::vector<std::string>& keys,
                            const std::string& next_page_token = "") {
  ListReply page;
  for (const std::string& key : keys) page.add_keys()->set_key(key);
  page.set_next_page_token(next_page_token);
  return page;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_KEY_REQUESTS_H_
