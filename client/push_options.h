// Says how contributions are pushed.

#ifndef TENSORKV_CLIENT_PUSH_OPTIONS_H_
#define TENSORKV_CLIENT_PUSH_OPTIONS_H_

#include <optional>

#include "contract/requests.h"
#include "tensor/dtype.h"

namespace tensorkv {

struct PushOptions {
  // The worker's step that the contributions belong to. 0 stands for the step
  // after the client's last; see Client::step.
  Step step = 0;

  // True if Client::Encode has made the entries, which then go out as they are.
  bool is_encoded = false;

  // Signs the push as this worker; without it the client's own worker signs.
  std::optional<Worker> worker;

  // The dtype to which the server converts the values of a PushPull; kUnknown
  // leaves them as they are stored.
  DType reply_dtype = DType::kUnknown;

  // Has a Push or a PushRows take a snapshot; its reply says which.
  std::optional<PublishAs> publish_as;

  // Has the results of a Push have tokens, on which later pushes can build.
  bool with_tokens = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_PUSH_OPTIONS_H_
