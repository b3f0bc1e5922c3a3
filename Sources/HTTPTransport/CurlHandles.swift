import CCurl

/// Owns libcurl's multi handle (CURLM *) and the share of TLS sessions (CURLSH *) that its transfers use.
///
/// `@unchecked Sendable`: `wake` is the one call that libcurl allows from any thread; only the loop's thread makes the
/// others. The last owner frees both handles; by then the loop has removed and freed every transfer.
final class CurlHandles: @unchecked Sendable {
  let multi: OpaquePointer
  let share: OpaquePointer

  init(_ settings: CurlSettings) throws(CurlTransport.SetupError) {
    try CurlGlobal.start(http2: settings.http2)
    guard let multi = curl_multi_init() else { throw .libcurl("curl_multi_init") }
    guard let share = curl_share_init() else {
      curl_multi_cleanup(multi)
      throw .libcurl("curl_share_init")
    }
    self.multi = multi
    self.share = share

    // A multi handle shares connections and names by itself, but not TLS sessions. No lock: one thread uses them.
    guard ccurl_share_lock_data(share, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK else {
      throw .libcurl("curl_share_setopt")
    }
    let options: [(CURLMoption, Int)] = [
      (CURLMOPT_PIPELINING, settings.http2 ? Int(CURLPIPE_MULTIPLEX) : 0),
      (CURLMOPT_MAXCONNECTS, settings.maxInFlight),
      (CURLMOPT_MAX_CONCURRENT_STREAMS, settings.maxInFlight),
    ]
    for (option, value) in options {
      guard ccurl_multi_set_long(multi, option, value) == CURLM_OK else { throw .libcurl("curl_multi_setopt") }
    }
  }

  /// Wakes the loop from its present or next poll. From any thread.
  func wake() {
    // Fails only if its pipe is full, and then the loop is about to wake anyway.
    _ = curl_multi_wakeup(multi)
  }

  deinit {
    curl_multi_cleanup(multi)
    curl_share_cleanup(share)
  }
}
