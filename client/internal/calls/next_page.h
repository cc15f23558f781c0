// Reads lists page by page.

#ifndef TENSORKV_CLIENT_INTERNAL_CALLS_NEXT_PAGE_H_
#define TENSORKV_CLIENT_INTERNAL_CALLS_NEXT_PAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/internal/transfer/message_bytes.h"

namespace tensorkv {

// Makes `request` ask for what comes after a page with this next_page_token,
// which is empty on the last page.
// Errors: Internal where tokens do not rise, as the list might have no end.
template <typename Request>
absl::Status NextPage(absl::string_view next_page_token, Request& request) {
  if (!next_page_token.empty() && next_page_token <= request.page_token()) {
    return MalformedReply(absl::InternalError(
        "expected a page_token above that of the page before"));
  }
  request.set_page_token(std::string(next_page_token));
  return absl::OkStatus();
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_CALLS_NEXT_PAGE_H_
