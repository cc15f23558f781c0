// What the handle of a fake GPU's stream points to.

#ifndef TENSORKV_TESTS_TESTING_FAKE_STREAM_HANDLE_H_
#define TENSORKV_TESTS_TESTING_FAKE_STREAM_HANDLE_H_

#include <cstddef>
#include <functional>

namespace tensorkv::testing {

// For fake libraries that put work on the stream, in another shared object too.
// Thread-safe.
class FakeStreamHandle {
 public:
  virtual ~FakeStreamHandle() = default;

  // Has the stream call `start` when it comes to this, and then stand still
  // until `open` is called, once. False fails the device.
  using Start = std::function<bool(std::function<void()> open)>;
  virtual void Enqueue(Start start) = 0;

  // Where the bytes at an address of the stream's GPU are; null: they are not
  // all memory of it. For `start` to call.
  virtual char* Find(const void* device, size_t size_bytes) const = 0;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_FAKE_STREAM_HANDLE_H_
