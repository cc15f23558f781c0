// Lets threads that others need be replaced while they block.

#ifndef TENSORKV_BASE_SCOPED_BLOCKING_CALL_H_
#define TENSORKV_BASE_SCOPED_BLOCKING_CALL_H_

namespace tensorkv {

// Is told when threads block. Thread-safe.
class BlockingObserver {
 public:
  // Is told on the thread that may block from now on. Returns whether another
  // thread is left to do what this one does.
  virtual bool BlockingBegins() = 0;
  virtual void BlockingEnds() = 0;

 protected:
  ~BlockingObserver() = default;
};

// Says that the calling thread may wait for other threads until this is
// destroyed. Of scopes within scopes the outermost one is told.
class ScopedBlockingCall {
 public:
  // Says what to do where no other thread is left: go on, with what fails then
  // or ends in time, or wait until one is.
  enum class IfLast { kGoOn, kWait };

  explicit ScopedBlockingCall(IfLast if_last = IfLast::kGoOn);
  ~ScopedBlockingCall();
  ScopedBlockingCall(const ScopedBlockingCall&) = delete;
  ScopedBlockingCall& operator=(const ScopedBlockingCall&) = delete;

  // Has `observer`, which outlives the calling thread, told of its scopes.
  static void ObserveThisThread(BlockingObserver* observer);

 private:
  // It is null where nobody is to be told.
  BlockingObserver* const observer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_SCOPED_BLOCKING_CALL_H_
