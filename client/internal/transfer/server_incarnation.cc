#include "client/internal/transfer/server_incarnation.h"

#include "contract/incarnation_metadata.h"

namespace tensorkv {
namespace {

// Returns 0 if it names none.
uint64_t IncarnationIn(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(kIncarnationMetadata);
  if (found == metadata.end()) return 0;
  return ParseIncarnation({found->second.data(), found->second.size()})
      .value_or(0);
}

}  // namespace

void ServerIncarnation::ApplyTo(grpc::ClientContext& context) const {
  const uint64_t incarnation = incarnation_;
  if (incarnation == 0) return;
  context.AddMetadata(kIncarnationMetadata, FormatIncarnation(incarnation));
}

void ServerIncarnation::LearnFrom(const grpc::ClientContext& context) {
  if (incarnation_ != 0) return;
  uint64_t none = 0;
  // The first one counts: what comes later may be another server.
  incarnation_.compare_exchange_strong(none, IncarnationIn(context));
}

void ServerIncarnation::ReplaceFrom(const grpc::ClientContext& context) {
  const uint64_t incarnation = IncarnationIn(context);
  if (incarnation != 0) incarnation_ = incarnation;
}

}  // namespace tensorkv
