#include "tests/testing/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace tensorkv::testing {
namespace {

constexpr long kHour = 3600;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Key NewKey() { return Key(EVP_EC_gen("P-256"), EVP_PKEY_free); }

template <typename Write>
std::string Pem(Write write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  write(bio);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string pem(text, size);
  BIO_free(bio);
  return pem;
}

std::string PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, int kind, const std::string& value) {
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Unsigned, good from an hour ago.
Certificate NewCertificate(const std::string& common_name, EVP_PKEY* key,
                           long seconds) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -2 * kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

Certificate NewRoot(const std::string& name, EVP_PKEY* key) {
  Certificate certificate = NewCertificate(name, key, kHour);
  X509_set_issuer_name(certificate.get(),
                       X509_get_subject_name(certificate.get()));
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate.get(), key, EVP_sha256());
  return certificate;
}

}  // namespace

Authority::Authority(const std::string& name)
    : key_(NewKey()),
      certificate_(NewRoot(name, key_.get())),
      pem_(PemOf(certificate_.get())) {}

Identity Authority::Issue(const std::string& common_name,
                          const std::string& names, bool is_expired) const {
  const Key key = NewKey();
  const Certificate certificate =
      NewCertificate(common_name, key.get(), is_expired ? -kHour : kHour);
  X509_set_issuer_name(certificate.get(),
                       X509_get_subject_name(certificate_.get()));
  if (!names.empty()) {
    AddExtension(certificate.get(), NID_subject_alt_name, names);
  }
  X509_sign(certificate.get(), key_.get(), EVP_sha256());
  return {PemOf(certificate.get()), Pem([&](BIO* bio) {
            PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0,
                                     nullptr, nullptr);
          })};
}

}  // namespace tensorkv::testing
