package import Logging
import Resilience
import Synchronization

/// Counts the open connections of a listener: in total, and per client address.
///
/// Trusted proxies and the loopback have no limit, because they carry the connections of many clients.
package final class ConnectionCounts: Sendable {
  private struct State {
    var all = 0
    /// Connections by `ClientAddress.client`; an address without connections has no entry.
    var byClient: [String: Int] = [:]
  }

  /// Guards the counts.
  private let state = Mutex(State())
  private let limit: Int
  private let limitPerAddress: Int
  private let proxies: TrustedProxies
  private let logger: Logger
  private let isWorthALine: Occasional

  /// - Parameters:
  ///   - limit: the most connections the acceptor holds; this type counts them and refuses none.
  ///   - limitPerAddress: the most connections of one client address; zero is no limit.
  init(
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

  /// An open connection; `end` releases its place.
  struct Place: Sendable {
    /// `nil` for a peer without a limit.
    fileprivate var client: String?
  }

  /// Counts a connection.
  ///
  /// - Returns: `nil` when the address has too many: close the connection; it was not counted.
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
          "an address has reached its limit of connections; new ones are closed",
          metadata: ["limit": .stringConvertible(limitPerAddress), "key": "server.max_connections_per_address"])
      }
      return nil
    }
    return Place(client: client)
  }

  func end(_ place: Place) {
    state.withLock { state in
      state.all -= 1
      guard let client = place.client, let count = state.byClient[client] else { return }
      state.byClient[client] = count > 1 ? count - 1 : nil
    }
  }

  /// Whether more than three quarters of the limit are in use.
  var isNearlyFull: Bool { state.withLock { $0.all > limit / 4 * 3 } }

  var count: Int { state.withLock { $0.all } }
}
