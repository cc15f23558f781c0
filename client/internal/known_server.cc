#include "client/internal/known_server.h"

#include <optional>

#include "contract/incarnation_metadata.h"

namespace tensorkv {

void KnownServer::ApplyTo(grpc::ClientContext& context) const {
  const uint64_t incarnation = incarnation_;
  if (incarnation == 0) return;
  context.AddMetadata(kIncarnationMetadata, FormatIncarnation(incarnation));
}

void KnownServer::LearnFrom(const grpc::ClientContext& context) {
  if (incarnation_ != 0) return;
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(kIncarnationMetadata);
  if (found == metadata.end()) return;
  const std::optional<uint64_t> incarnation =
      ParseIncarnation({found->second.data(), found->second.size()});
  uint64_t none = 0;
  // The first one counts: what comes later may be another server.
  if (incarnation) incarnation_.compare_exchange_strong(none, *incarnation);
}

}  // namespace tensorkv
