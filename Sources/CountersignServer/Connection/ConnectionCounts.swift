package import Logging
package import Resilience
import Synchronization

/// How many connections a listening address holds, in all and of each client address.
///
/// Trusted proxies and this machine itself are not bounded: the connections of many clients come from there.
package final class ConnectionCounts: Sendable {
  private struct State {
    var all = 0
    /// By `ClientAddress.client`; one that has none is not in it.
    var byClient: [String: Int] = [:]
  }

  /// Guards the numbers.
  private let state = Mutex(State())
  private let limit: Int
  private let limitPerAddress: Int
  private let proxies: TrustedProxies
  private let logger: Logger
  private let isWorthALine: Occasional

  /// - Parameters:
  ///   - limit: how many are held at most, by whoever accepts them; here they are only counted.
  ///   - limitPerAddress: how many one client address may have; zero is no limit.
  package init(
    limit: Int, limitPerAddress: Int, proxies: TrustedProxies, logger: Logger,
    isWorthALine: Occasional = Occasional(most: 1, every: .seconds(60))
  ) {
    self.limit = limit
    self.limitPerAddress = limitPerAddress
    self.proxies = proxies
    self.logger = logger
    self.isWorthALine = isWorthALine
  }

  package convenience init(_ server: ServerSettings, logger: Logger) {
    self.init(
      limit: server.maxConnections, limitPerAddress: server.maxConnectionsPerAddress,
      proxies: TrustedProxies(ranges: server.trustedProxies), logger: logger)
  }

  /// A connection that is held; `end` gives its place back.
  package struct Place: Sendable {
    /// `nil`: of nobody who is bounded.
    fileprivate var client: String?
  }

  /// Counts a connection.
  ///
  /// - Returns: `nil` where its address has too many: it is to be closed, and does not count.
  func begin(from peer: ClientAddress?) -> Place? {
    let client = limitPerAddress > 0 ? proxies.client(peer: peer, forwarded: [])?.client : nil
    let isAdmitted = state.withLock { state in
      if let client {
        let count = state.byClient[client, default: 0]
        guard count < limitPerAddress else { return false }
        state.byClient[client] = count + 1
      }
      state.all += 1
      return true
    }
    guard isAdmitted else {
      if isWorthALine.admit() {
        logger.warning(
          "an address has as many connections as it may; more are closed",
          metadata: ["limit": "\(limitPerAddress)", "key": "server.max_connections_per_address"])
      }
      return nil
    }
    return Place(client: client)
  }

  package func end(_ place: Place) {
    state.withLock { state in
      state.all -= 1
      guard let client = place.client, let count = state.byClient[client] else { return }
      state.byClient[client] = count > 1 ? count - 1 : nil
    }
  }

  /// Whether more than three quarters of the connections that may be held are.
  var isNearlyFull: Bool { state.withLock { $0.all > limit / 4 * 3 } }

  var count: Int { state.withLock { $0.all } }
}
