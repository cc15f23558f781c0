// What ThreadSanitizer does by default in a test. Linked into every test;
// without the sanitizer nobody calls it.

extern "C" {

// Of gRPC's library: null in a test that is linked without it.
__attribute__((weak)) void grpc_init();

// The distribution's gRPC is not built for ThreadSanitizer, which would report
// a race for much of what passes between gRPC's threads; each of those reports
// takes longer to suppress than a call takes. Its system calls and copies are
// therefore not looked at, which costs those of our own code too: in a test
// that has no gRPC in it they are.
const char* __tsan_default_options();
const char* __tsan_default_options() {
  return grpc_init != nullptr ? "ignore_noninstrumented_modules=1" : "";
}

}  // extern "C"
