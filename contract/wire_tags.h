// The tags with which fields begin on the wire.

#ifndef TENSORKV_CONTRACT_WIRE_TAGS_H_
#define TENSORKV_CONTRACT_WIRE_TAGS_H_

#include <cstdint>

namespace tensorkv::wire {

// A field's number and wire type, which take one byte up to number 15.
using Tag = uint8_t;

// Return the tag of the field of that number, at most 15, which is a varint, or
// has 8 or 4 bytes.
consteval Tag NumberTag(int field) { return static_cast<Tag>(field << 3); }
consteval Tag Fixed64Tag(int field) { return static_cast<Tag>(field << 3 | 1); }
consteval Tag Fixed32Tag(int field) { return static_cast<Tag>(field << 3 | 5); }
// Strings, bytes, messages and packed numbers: a length comes first.
consteval Tag RunTag(int field) { return static_cast<Tag>(field << 3 | 2); }

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_TAGS_H_
