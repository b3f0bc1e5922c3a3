import CountersignServer
import struct FoundationEssentials.Date

/// Addresses to listen on.
enum ListeningAddress {
  /// Whether only this machine can connect.
  static func isLoopback(_ host: String) -> Bool { host.hasPrefix("127.") || host == "::1" || host == "localhost" }
}

extension ConfigurationReader {
  /// Whether a text can be an address or a host name; reports it if not.
  mutating func checkHost(_ host: String, _ key: ConfigurationKey) -> Bool {
    guard host.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "/") }) else {
      findings.problem(
        origin(of: key), "must be an address or a host name, not \(ConfigurationValue.quoted(host))")
      return false
    }
    return true
  }
}

extension ServerSettings.TLS {
  /// - Returns: `nil` without TLS, and if anything is invalid, which is reported.
  static func read(_ reader: inout ConfigurationReader) -> Self? {
    let problemsBefore = reader.findings.problems.count
    let certificateFile = reader.existingFile(.serverTLSCertificateFile)
    let keyFile = reader.existingFile(.serverTLSKeyFile)
    guard reader.findings.problems.count == problemsBefore else { return nil }
    switch (certificateFile, keyFile) {
    case (nil, nil): return nil
    case (_?, nil):
      reader.reportMissing(.serverTLSKeyFile, unless: "leave server.tls out")
      return nil
    case (nil, _?):
      reader.reportMissing(.serverTLSCertificateFile, unless: "leave server.tls out")
      return nil
    case (let certificateFile?, let keyFile?):
      let tls = Self(certificateFile: certificateFile, keyFile: keyFile)
      do throws(ServerIdentity.Unusable) {
        let identity = try ServerIdentity(tls)
        if identity.isKeyWorldReadable {
          reader.findings.warning(
            reader.origin(of: .serverTLSKeyFile),
            "every user of this machine may read the private key; chmod 0400 keeps it to its owner")
        }
        if let sentence = identity.lapse(at: Date()) {
          reader.findings.warning(reader.origin(of: .serverTLSCertificateFile), sentence)
        }
        return tls
      } catch {
        reader.findings.problem(
          reader.origin(of: error.isAboutKey ? .serverTLSKeyFile : .serverTLSCertificateFile), error.sentence)
        return nil
      }
    }
  }
}

extension ServerSettings.Admin {
  /// - Returns: `nil` without an admin address, and if anything is invalid, which is reported.
  static func read(_ reader: inout ConfigurationReader) -> Self? {
    let host = reader.text(.serverAdminHost)
    let port = reader.integer(.serverAdminPort)
    guard let port else {
      if host != nil { reader.reportMissing(.serverAdminPort, unless: "leave server.admin.host out") }
      return nil
    }
    let address = host ?? "127.0.0.1"
    guard reader.checkHost(address, .serverAdminHost) else { return nil }
    if !ListeningAddress.isLoopback(address) {
      reader.findings.warning(
        reader.origin(of: .serverAdminHost),
        "others than this machine can read metrics and readiness, which are open and not encrypted; let only your "
          + "monitoring reach it")
    }
    return Self(host: address, port: port)
  }
}
