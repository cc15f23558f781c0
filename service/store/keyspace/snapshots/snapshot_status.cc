#include "service/store/keyspace/snapshots/snapshot_status.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "contract/duration.h"
#include "contract/timestamp.h"
#include "service/store/keyspace/snapshots/snapshot_parts.h"

namespace tensorkv {

namespace {

void AddPrefixes(const NamedSnapshot& snapshot, v1::SnapshotStatus* status) {
  for (const std::string& prefix : snapshot.prefixes) {
    if (!prefix.empty()) status->add_prefixes(prefix);
  }
}

}  // namespace

void SetReply(const NamedSnapshot& snapshot, CreateSnapshotReply* reply) {
  reply->set_number(snapshot.number);
  reply->set_revision(snapshot.revision);
  reply->set_uid(snapshot.uid);
  if (snapshot.owned) reply->set_partitions(snapshot.owned->digest());
  if (!snapshot.num_keys) return;
  reply->set_num_keys(*snapshot.num_keys);
  reply->set_bytes(*snapshot.bytes);
}

void SetStatus(const NamedSnapshot& snapshot, absl::Duration now,
               v1::SnapshotStatus* status) {
  status->set_series(snapshot.series->name);
  status->set_number(snapshot.number);
  status->set_revision(snapshot.revision);
  status->set_uid(snapshot.uid);
  for (const ServerShare& share : snapshot.servers) {
    status->add_servers(share.server);
  }
  EncodeTime(snapshot.create_time, status->mutable_create_time());
  if (snapshot.end < absl::InfiniteDuration()) {
    EncodeDuration(std::max(snapshot.end - now, absl::ZeroDuration()),
                   status->mutable_time_left());
  }
  status->mutable_metadata()->insert(snapshot.metadata.begin(),
                                     snapshot.metadata.end());
  if (IsOfParts(snapshot)) {
    status->set_num_parts(snapshot.parts->count());
  } else {
    AddPrefixes(snapshot, status);
  }
  status->set_dtype(static_cast<v1::DType>(snapshot.dtype));
  status->set_num_leases(static_cast<uint32_t>(snapshot.leases.size()));
  if (!snapshot.num_keys) return;
  status->set_num_keys(*snapshot.num_keys);
  status->set_bytes(*snapshot.bytes);
}

}  // namespace tensorkv
