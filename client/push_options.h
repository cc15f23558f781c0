// Says how contributions are pushed.

#ifndef TENSORKV_CLIENT_PUSH_OPTIONS_H_
#define TENSORKV_CLIENT_PUSH_OPTIONS_H_

#include <optional>

#include "contract/requests.h"
#include "tensor/dtype.h"

namespace tensorkv {

struct PushOptions {
  // The worker's step that the contributions belong to. 0: the one after the
  // client's last; see Client::step.
  Step step = 0;

  // The entries are those that Client::Encode has made, and go out as they are.
  bool is_encoded = false;

  // Signs the push; none: the client's own worker does.
  std::optional<Worker> worker;

  // Asks the server to convert the values of a PushPull to it, as in Pull.
  DType reply_dtype = DType::kUnknown;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_PUSH_OPTIONS_H_
