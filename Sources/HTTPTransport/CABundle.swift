import FoundationEssentials

/// Finds the file of trusted certificate authorities.
///
/// The path is passed to libcurl explicitly: its built-in path belongs to the system on which libcurl was built.
enum CABundle {
  /// The bundles of Debian and Alpine, RHEL, and SUSE.
  static let systemPaths = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
  ]

  static func path(configured: String?) throws(CurlTransport.SetupError) -> String {
    if let configured {
      guard holdsCertificate(configured) else { throw .unusableCAFile(configured) }
      return configured
    }
    guard let found = systemPaths.first(where: holdsCertificate) else { throw .noSystemCAFile }
    return found
  }

  private static func holdsCertificate(_ path: String) -> Bool {
    guard !path.utf8.contains(0), let contents = try? Data(contentsOf: URL(filePath: path)) else { return false }
    return contents.firstRange(of: Data("-----BEGIN CERTIFICATE-----".utf8)) != nil
  }
}
