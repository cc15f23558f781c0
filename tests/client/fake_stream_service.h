// A server whose streams the test writes down and looks at.

#ifndef TENSORKV_TESTS_CLIENT_FAKE_STREAM_SERVICE_H_
#define TENSORKV_TESTS_CLIENT_FAKE_STREAM_SERVICE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "tests/client/fake_service.h"

namespace tensorkv::testing {

// Takes uploads and gives downloads in stripes, as the contract says, and
// makes the mistakes that it is told to make. The call succeeds when all its
// stripes are there; if one fails, the others end with Aborted.
//
// Change the members while no call is under way.
class FakeStreamService : public FakeService {
 public:
  // What one stream brought. Uploads have a manifest, PullStream a request.
  struct Stream {
    std::string rpc;
    std::string peer;
    v1::Stripe stripe;
    v1::InitManifest init;
    v1::PushManifest push;
    v1::PullStreamRequest pull;
    std::vector<v1::Part> parts;
  };

  ~FakeStreamService() override { Stop(); }

  // Also lets go of stripes whose others never come.
  void Stop();

  // The values that reads give, PushPullStream and PullStream with their data.
  // Other replies have it unless the request takes a ticket for so many bytes.
  std::vector<Value> values;
  // The longest part of PushPullStream, and of PullStream unless it asks.
  uint64_t part_bytes = 1 << 20;

  // Changes what a stripe sends before it does.
  std::function<void(const v1::Stripe&, std::vector<v1::PullChunk>*)> edit =
      [](const v1::Stripe&, std::vector<v1::PullChunk>*) {};
  // Runs after the first message of each stripe; its errors end the stripe,
  // and so the call.
  std::function<grpc::Status(const v1::Stripe&)> after_manifest =
      [](const v1::Stripe&) { return grpc::Status::OK; };
  // Runs after the last message of each stripe has come.
  std::function<void(const v1::Stripe&)> after_upload = [](const v1::Stripe&) {
  };

  // The streams that have sent all they had, by stripe.
  std::vector<Stream> streams();

  // Of the last call that was to bring values.
  uint64_t ticket_from_bytes = 0;

  grpc::Status Pull(grpc::ServerContext* context,
                    const v1::PullRequest* request,
                    v1::PullResponse* response) override {
    return Read("Pull", *context, *request, response);
  }
  grpc::Status PullRows(grpc::ServerContext* context,
                        const v1::PullRowsRequest* request,
                        v1::PullRowsResponse* response) override {
    return Read("PullRows", *context, *request, response);
  }
  grpc::Status GetState(grpc::ServerContext* context,
                        const v1::GetStateRequest* request,
                        v1::GetStateResponse* response) override {
    return Read("GetState", *context, *request, response);
  }
  grpc::Status PushPull(grpc::ServerContext* context,
                        const v1::PushPullRequest* request,
                        v1::PushPullResponse* response) override {
    return Read("PushPull", *context, *request, response);
  }
  grpc::Status InitStream(grpc::ServerContext* context,
                          grpc::ServerReader<v1::InitChunk>* reader,
                          v1::InitResponse* response) override;
  grpc::Status PushStream(grpc::ServerContext* context,
                          grpc::ServerReader<v1::PushChunk>* reader,
                          v1::PushResponse* response) override;
  grpc::Status PullStream(grpc::ServerContext* context,
                          const v1::PullStreamRequest* request,
                          grpc::ServerWriter<v1::PullChunk>* writer) override;
  grpc::Status PushPullStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::PullChunk, v1::PushChunk>* stream) override;

 private:
  // The stripes of one attempt of a call, which share a group.
  struct Call {
    uint32_t num_here = 0;
    bool has_failed = false;
  };

  // Replies with the values, or a ticket for them.
  template <typename Request, typename Response>
  grpc::Status Read(const char* rpc, const grpc::ServerContext& context,
                    const Request& request, Response* response);
  // Waits until all stripes of the call are here, or some cannot come.
  grpc::Status Join(const v1::Stripe& stripe);
  grpc::Status Fail(const v1::Stripe& stripe, const grpc::Status& status);
  grpc::Status Finish(Stream stream);
  std::vector<v1::PullChunk> Chunks(const v1::Stripe& stripe,
                                    uint64_t max_part_bytes);
  template <typename Writer>
  void Send(const v1::Stripe& stripe, std::vector<v1::PullChunk> chunks,
            Writer* writer);

  Mutex mutex_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<Stream> streams_ ABSL_GUARDED_BY(mutex_);
};

// The payload that these streams bring for each of `num_entries` entries.
// Fails the test unless each stream brings exactly the bytes of its stripe, in
// their order, in parts of at most `part_bytes`.
std::vector<std::string> Payloads(
    const std::vector<FakeStreamService::Stream>& streams,
    const std::vector<uint64_t>& sizes, uint64_t part_bytes);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_FAKE_STREAM_SERVICE_H_
