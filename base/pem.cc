#include "base/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// A process asks nobody for a passphrase.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::Status Wrong(const FileText& file, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.option, ": expected ", what, " in ", file.path));
}

Bio Open(const FileText& file) {
  return Bio(
      BIO_new_mem_buf(file.text.data(), static_cast<int>(file.text.size())),
      BIO_free);
}

// Returns all of the file, at least one.
absl::StatusOr<std::vector<Certificate>> CertificatesOf(const FileText& file) {
  const Bio bio = Open(file);
  ERR_clear_error();
  std::vector<Certificate> certificates;
  for (;;) {
    Certificate next(
        PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr),
        X509_free);
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  // Other errors than that there are no more.
  const bool is_whole =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty()) return Wrong(file, "a PEM certificate");
  if (!is_whole) return Wrong(file, "whole PEM certificates");
  return certificates;
}

absl::StatusOr<Key> KeyOf(const FileText& file) {
  const Bio bio = Open(file);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr),
          EVP_PKEY_free);
  ERR_clear_error();
  if (key == nullptr) return Wrong(file, "a PEM key without passphrase");
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace

absl::Status CheckAuthorities(const FileText& authorities) {
  return CertificatesOf(authorities).status();
}

absl::Status CheckCertificate(const FileText& certificate,
                              const FileText& key) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                   CertificatesOf(certificate));
  ASSIGN_OR_RETURN(const Key own, KeyOf(key));
  const bool fits =
      X509_check_private_key(certificates.front().get(), own.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key.option, ": expected the key of ", certificate.path,
                   ", got another in ", key.path));
}

absl::Status CheckDates(const FileText& certificate, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                   CertificatesOf(certificate));
  const X509* const first = certificates.front().get();
  const absl::Time begin = TimeOf(X509_get0_notBefore(first));
  const absl::Time end = TimeOf(X509_get0_notAfter(first));
  if (begin <= now && now <= end) return absl::OkStatus();
  return Wrong(
      certificate,
      absl::StrCat("a certificate that counts now, got one from ",
                   absl::FormatTime(begin, absl::UTCTimeZone()), " to ",
                   absl::FormatTime(end, absl::UTCTimeZone())));
}

absl::Status CheckTls(const TlsFileTexts& texts, bool is_first) {
  if (!texts.certificate.path.empty()) {
    RETURN_IF_ERROR(CheckCertificate(texts.certificate, texts.key));
  }
  if (!texts.authorities.path.empty()) {
    RETURN_IF_ERROR(CheckAuthorities(texts.authorities));
  }
  if (is_first || texts.certificate.path.empty()) return absl::OkStatus();
  return CheckDates(texts.certificate, absl::Now());
}

absl::StatusOr<absl::Time> ExpiryOf(const FileText& certificate) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                   CertificatesOf(certificate));
  return TimeOf(X509_get0_notAfter(certificates.front().get()));
}

}  // namespace tensorkv
