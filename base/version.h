// The release that this source is.

#ifndef TENSORKV_BASE_VERSION_H_
#define TENSORKV_BASE_VERSION_H_

namespace tensorkv {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tensorkv

#endif  // TENSORKV_BASE_VERSION_H_
