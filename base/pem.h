// What TLS needs of texts in PEM.

#ifndef TENSORKV_BASE_PEM_H_
#define TENSORKV_BASE_PEM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/watched_files.h"

namespace tensorkv {

// The PEM texts of a server: its certificate, with those that may follow it,
// its key, and the authorities of clients; empty if there are none.
struct TlsTexts {
  std::string certificate;
  std::string key;
  std::string authorities;
};

// Errors of all: InvalidArgument, naming the option and the file, but nothing
// that is in it.

// Checks that the file is one certificate or more, and nothing else that looks
// like one: a file that is cut off is wrong.
absl::Status CheckAuthorities(const FileText& authorities);

// Checks that there are a certificate, with others that may follow it, and its
// key, without a passphrase.
absl::Status CheckCertificate(const FileText& certificate, const FileText& key);

// Checks that the first certificate counts at that time.
absl::Status CheckDates(const FileText& certificate, absl::Time now);

// Returns when the first certificate counts no more.
absl::StatusOr<absl::Time> ExpiryOf(const FileText& certificate);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_PEM_H_
