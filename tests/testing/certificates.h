// Certificates, made when a test needs them.

#ifndef TENSORKV_TESTS_TESTING_CERTIFICATES_H_
#define TENSORKV_TESTS_TESTING_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace tensorkv::testing {

// A certificate and its key, in PEM.
struct Identity {
  std::string certificate;
  std::string key;
};

// Signs certificates. Not thread-safe.
class Authority {
 public:
  explicit Authority(const std::string& name);

  // `names` as openssl.cnf writes subjectAltName, "URI:spiffe://a/b,DNS:c";
  // may be empty. An expired one ended an hour ago.
  Identity Issue(const std::string& common_name, const std::string& names,
                 bool is_expired = false) const;

  const std::string& certificate() const { return pem_; }

 private:
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  const std::unique_ptr<X509, decltype(&X509_free)> certificate_;
  const std::string pem_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_CERTIFICATES_H_
