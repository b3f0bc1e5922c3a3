import CCurl
import Glibc

/// libcurl's process-wide initialisation, once, by the first transport.
enum CurlGlobal {
  /// Environment variables that libcurl would obey: it sends traffic through the proxy that they name, and writes the
  /// keys of every TLS session to the file in SSLKEYLOGFILE, which it opens in curl_global_init.
  static let refusedVariables = [
    "SSLKEYLOGFILE", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
  ]

  private static let isReady: Bool = {
    for variable in refusedVariables { unsetenv(variable) }
    return curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
  }()

  /// - Throws: when libcurl cannot start, has no TLS, or would block the loop during a name look-up.
  static func start(http2: Bool) throws(CurlTransport.SetupError) {
    guard isReady else { throw .libcurl("curl_global_init") }
    guard let version = curl_version_info(CURLVERSION_FIRST) else { throw .libcurl("curl_version_info") }
    let required = Int32(CURL_VERSION_SSL | CURL_VERSION_ASYNCHDNS) | (http2 ? Int32(CURL_VERSION_HTTP2) : 0)
    guard version.pointee.features & required == required else { throw .libcurl("curl_version_info") }
  }
}
