/// This machine as a host, from which nobody else can listen in.
enum Loopback {
  static func contains(host: String) -> Bool { host.hasPrefix("127.") || host == "::1" || host == "localhost" }

  /// - Parameter url: an http URL.
  static func contains(url: String) -> Bool {
    let authority = url.dropFirst("http://".count).prefix { $0 != "/" && $0 != "?" && $0 != "#" }.lowercased()
    return authority.wholeMatch(of: /(?:127\.[0-9.]+|localhost|\[::1\])(?::[0-9]+)?/) != nil
  }
}
