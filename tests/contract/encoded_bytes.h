// The bytes of an EncodedMessage in one string, for tests.

#ifndef TENSORKV_TESTS_CONTRACT_ENCODED_BYTES_H_
#define TENSORKV_TESTS_CONTRACT_ENCODED_BYTES_H_

#include <string>

#include "contract/encoded_message.h"

namespace tensorkv::testing {

inline std::string BytesOf(const EncodedMessage& message) {
  std::string bytes;
  for (const EncodedMessage::Piece& piece : message.pieces()) {
    bytes.append(piece.data, piece.size_bytes);
  }
  return bytes;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACT_ENCODED_BYTES_H_
