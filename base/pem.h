// Checks of the PEM texts that TLS uses.

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

// All functions here fail with InvalidArgument, naming the option and the file,
// but nothing that is in it.

// Checks that the file has one certificate or more, each of them whole: a
// truncated file is wrong.
absl::Status CheckAuthorities(const FileText& authorities);

// Checks that `certificate` has a certificate, with others that may follow it,
// and `key` the private key of the first, without a passphrase. Does not look
// at dates.
absl::Status CheckCertificate(const FileText& certificate, const FileText& key);

// Checks that the first certificate is valid at the time `now`.
absl::Status CheckDates(const FileText& certificate, absl::Time now);

// The certificate and key by which one side is known, and the authorities of
// the other. A file without a path is none.
struct TlsFileTexts {
  const FileText& certificate;
  const FileText& key;
  const FileText& authorities;
};

// Checks all of them: files that are none are not looked at, and dates of the
// certificate only where it replaces others, as at the start there is nothing
// better.
absl::Status CheckTls(const TlsFileTexts& texts, bool is_first);

// Returns when the first certificate expires.
absl::StatusOr<absl::Time> ExpiryOf(const FileText& certificate);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_PEM_H_
