// Declares how a client knows its server, and how it proves who it is.

#ifndef TENSORKV_CLIENT_CREDENTIALS_H_
#define TENSORKV_CLIENT_CREDENTIALS_H_

#include <string>

namespace tensorkv {

// Paths of files, but for tls_server_name; empty ones are not used.
// docs/security.md says what the server makes of them. A replaced file counts
// for calls that begin some seconds later; while a file is wrong, what it said
// before counts.
struct Credentials {
  // The authorities that may sign the server's certificate (PEM). Connections
  // are encrypted where it is set, and in plain text where it is not.
  std::string tls_ca;

  // The client's own certificate, with the chain up to the authority, and its
  // key (PEM). Both or none.
  std::string tls_cert;
  std::string tls_key;

  // The name in the server's certificate, if it is not that of the target.
  std::string tls_server_name;

  // A file whose one line is a bearer token. It is sent over TLS and over Unix
  // sockets, and never in plain text over a network.
  std::string token_file;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CREDENTIALS_H_
