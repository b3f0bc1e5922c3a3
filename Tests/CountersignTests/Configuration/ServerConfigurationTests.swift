import Foundation
import TestSupport
import Testing

@testable import Countersign
@testable import CountersignServer

/// `server.tls` and `server.admin`: keys that go together.
@Suite struct ServerConfigurationTests {
  private let directory: TemporaryDirectory
  private let authority: TestCertificateAuthority

  init() throws {
    directory = try TemporaryDirectory()
    authority = try TestCertificateAuthority()
  }

  private func sample(certificate: String?, key: String?) -> SampleConfiguration {
    let members = [certificate.map { "certificate_file: \"\($0)\"" }, key.map { "key_file: \"\($0)\"" }]
    return SampleConfiguration().setting("server.tls", "{ \(members.compactMap(\.self).joined(separator: ", ")) }")
  }

  private func files(
    _ identity: TestCertificateAuthority.Identity, mode: Int = 0o600
  ) throws -> (certificate: String, key: String) {
    (
      try directory.write("server.pem", identity.certificatePEM),
      try directory.write("server.key", identity.privateKeyPEM, mode: mode)
    )
  }

  @Test func `a certificate and its key are taken, from the file and from the environment`() throws {
    let files = try files(authority.serverIdentity())
    let fromFile = try sample(certificate: files.certificate, key: files.key).load()
    #expect(fromFile.server.tls == .init(certificateFile: files.certificate, keyFile: files.key))
    #expect(fromFile.warnings.isEmpty)
    let fromEnvironment = try SampleConfiguration().load(environment: [
      "COUNTERSIGN_SERVER_TLS_CERTIFICATE_FILE": files.certificate, "COUNTERSIGN_SERVER_TLS_KEY_FILE": files.key,
    ])
    #expect(fromEnvironment.server.tls == fromFile.server.tls)
    #expect(try SampleConfiguration().load().server.tls == nil)
  }

  @Test func `with TLS it may listen to everybody without a warning`() throws {
    let files = try files(authority.serverIdentity())
    let open = sample(certificate: files.certificate, key: files.key).setting("server.host", "0.0.0.0")
    #expect(try open.load().warnings.isEmpty)
    let plain = try SampleConfiguration().setting("server.host", "0.0.0.0").load()
    #expect(plain.warnings.map(\.sentence).contains { $0.contains("set server.tls") })
  }

  @Test func `a certificate without its key, or a key without its certificate, is refused`() throws {
    let files = try files(authority.serverIdentity())
    #expect(
      sample(certificate: files.certificate, key: nil).problems()
        .contains { $0.hasPrefix("server.tls.key_file: is missing") })
    #expect(
      sample(certificate: nil, key: files.key).problems()
        .contains { $0.hasPrefix("server.tls.certificate_file: is missing") })
  }

  @Test func `faults of the TLS files are named, each with its file`() throws {
    let good = try files(authority.serverIdentity())
    let foreign = try directory.write("foreign.key", authority.serverIdentity().privateKeyPEM)
    let junk = try directory.write("junk.pem", "not a certificate\n")
    let locked = try directory.write(
      "locked.key",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
        + "-----END RSA PRIVATE KEY-----\n")
    let absent = directory.path + "/absent"
    let cases = [
      (good.certificate, foreign, "server.tls.key_file", "the key is not that of the first certificate"),
      (junk, good.key, "server.tls.certificate_file", "holds no certificate in PEM"),
      (good.certificate, junk, "server.tls.key_file", "holds no private key in PEM"),
      (good.certificate, locked, "server.tls.key_file", "passphrase"),
      (absent, good.key, "server.tls.certificate_file", "cannot be opened"),
      (good.certificate, absent, "server.tls.key_file", "cannot be opened"),
      (good.certificate, directory.path, "server.tls.key_file", "is not a regular file"),
    ]
    for (certificate, key, place, sentence) in cases {
      let problems = sample(certificate: certificate, key: key).problems()
      #expect(problems.count == 1)
      #expect(problems.contains { $0.hasPrefix("\(place) in ") && $0.contains(sentence) }, "\(problems)")
    }
  }

  @Test func `an ended certificate and an open key are warned of`() throws {
    let ended = try files(
      authority.serverIdentity(validUntil: Date(timeIntervalSince1970: 1_600_000_000)), mode: 0o644)
    let warnings = try sample(certificate: ended.certificate, key: ended.key).load().warnings
    #expect(warnings.count == 2)
    #expect(warnings.contains { $0.sentence.contains("the certificate ended at 2020-09-13T12:26:40Z") })
    #expect(warnings.contains { $0.sentence.contains("may read the private key") && $0.origin.contains("key_file") })
    let early = try files(authority.serverIdentity(validFrom: Date(timeIntervalSince1970: 2_400_000_000)))
    #expect(
      try sample(certificate: early.certificate, key: early.key).load().warnings
        .contains { $0.sentence.contains("counts from 2046-01-19T18:40:00Z on only") })
  }

  // MARK: - The operators' address

  @Test func `operators get an address of their own, on the loopback unless told otherwise`() throws {
    #expect(try SampleConfiguration().load().server.admin == nil)
    let port = try SampleConfiguration().setting("server.admin", "{ port: 9090 }").load()
    #expect(port.server.admin == .init(host: "127.0.0.1", port: 9090))
    #expect(port.warnings.isEmpty)
    let both = try SampleConfiguration().load(environment: [
      "COUNTERSIGN_SERVER_ADMIN_HOST": "::1", "COUNTERSIGN_SERVER_ADMIN_PORT": "0",
    ])
    #expect(both.server.admin == .init(host: "::1", port: 0))
  }

  @Test func `operators' address beyond the loopback is warned of`() throws {
    let open = try SampleConfiguration().setting("server.admin", "{ host: 0.0.0.0, port: 9090 }").load()
    #expect(open.warnings.map(\.sentence).contains { $0.contains("can read metrics and readiness") })
  }

  @Test(arguments: [
    ("127.0.0.1", "{ port: 8080 }", true), ("0.0.0.0", "{ port: 8080 }", true),
    ("10.0.0.7", "{ host: \"::\", port: 8080 }", true), ("10.0.0.7", "{ port: 8080 }", false),
    ("127.0.0.1", "{ port: 8081 }", false),
  ])
  func `operators' port is another one where the addresses meet`(host: String, admin: String, isRefused: Bool) {
    let problems = SampleConfiguration().setting("server.host", host).setting("server.port", "8080")
      .setting("server.admin", admin).problems()
    #expect(problems.count == (isRefused ? 1 : 0), "\(problems)")
    #expect(problems.allSatisfy { $0.hasPrefix("server.admin.port") && $0.contains("must not be server.port") })
  }

  @Test func `a host for operators needs a port, and has to be one`() throws {
    #expect(
      SampleConfiguration().setting("server.admin", "{ host: 127.0.0.1 }").problems()
        .contains { $0.hasPrefix("server.admin.port: is missing") })
    #expect(
      SampleConfiguration().setting("server.admin", "{ host: \"a/b\", port: 1 }").problems()
        .contains { $0.contains("must be an address or a host name") })
    #expect(
      SampleConfiguration().setting("server.admin", "{ port: 70000 }").problems()
        .contains { $0.contains("must be from 0 to 65535") })
  }
}
