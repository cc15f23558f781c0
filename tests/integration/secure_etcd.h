// The real etcd over TLS, which asks who calls.

#ifndef TENSORKV_TESTS_INTEGRATION_SECURE_ETCD_H_
#define TENSORKV_TESTS_INTEGRATION_SECURE_ETCD_H_

#include <string>

#include "tests/integration/etcd_process.h"
#include "tests/testing/certificates.h"

namespace tensorkv::testing {

// An etcd server with these users, each with the password "secret":
//
//   root     may do everything
//   server   reads and writes the keys that begin with a prefix
//   reader   reads these alone
//   nobody   has no role
//
// Its files are in a directory of its own: ca.crt, the authority, and etcd.crt
// and etcd.key, the certificate. Not thread-safe.
class SecureEtcd {
 public:
  // With `asks_for_certificates`, callers need one of the authority; without a
  // token, its common name is the user.
  explicit SecureEtcd(const std::string& prefix,
                      bool asks_for_certificates = false);

  EtcdProcess& process() { return process_; }
  const std::string& address() const { return process_.address(); }

  // Return where a file of that name is, and what it says.
  std::string Path(const std::string& name) const;
  std::string Text(const std::string& name) const;
  void Write(const std::string& name, const std::string& text) const;
  // Writes NAME.crt and NAME.key, for that common name and the address of etcd.
  void Issue(const std::string& name) const { Issue(authority_, name); }
  // Gives etcd a certificate of another authority, and writes that as
  // other_ca.crt.
  void ChangeCertificate() const;

  // Makes that the password of the user, whose tokens end by it.
  void ChangePassword(const std::string& user, const std::string& password);

 private:
  void Issue(const Authority& authority, const std::string& name) const;
  EtcdTls Files(bool asks_for_certificates) const;
  // Calls a method of etcd's service Auth, with the token if there is one.
  // Returns the token of the answer, if it has one.
  template <typename Request>
  std::string Ask(const char* method, const Request& request);
  void SetUp(const std::string& prefix);
  // Takes a token of etcd's user root.
  void LogIn();

  const std::string directory_;
  const Authority authority_{"authority"};
  const Authority other_authority_{"other"};
  EtcdProcess process_;
  // Proves to etcd that the caller is its user root.
  std::string token_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_SECURE_ETCD_H_
