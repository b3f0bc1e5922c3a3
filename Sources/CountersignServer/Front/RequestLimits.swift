import CoreMetrics
import Entitlements
import HTTPTypes
import Resilience

/// The limits of requests: of keys, users and client addresses.
///
///     a key                    server.rate_limit
///     a user at one address    server.user_rate_limit
///     a user, writes           ten times that, from wherever they come
///     an address               server.address_rate_limit
///     its newcomers            server.new_customers_per_address, an hour: customers and devices
///
/// A user is counted by address, so that who names a user takes nothing from what the user may ask elsewhere.
struct RequestLimits: Sendable {
  var key: RequestLimit
  var user: RequestLimit
  var userInAll: RequestLimit
  var address: RequestLimit
  var newcomers: RequestLimit
  let reserve: DiskReserve
  let proxies: TrustedProxies

  init(
    _ server: ServerSettings, _ reserve: DiskReserve, _ metrics: any MetricsFactory,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    func limit(_ name: String, _ rate: Int, per period: Duration = .seconds(1), _ sentence: String) -> RequestLimit {
      RequestLimit(
        limiter: RateLimiter(rate: rate, per: period, clock: clock), sentence: "\(sentence); wait and try again.",
        refused: Counter(.rateLimited, [("limit", name)], in: metrics))
    }
    key = limit("key", server.rateLimit, "This key asks more often than it may")
    user = limit("user", server.userRateLimit, "This user asks more often than they may")
    userInAll = limit(
      "user_in_all", 10 * server.userRateLimit, "Writes for this user, from all addresses, come too often")
    address = limit("address", server.addressRateLimit, "Requests come from this address more often than they may")
    newcomers = limit(
      "newcomers", server.newCustomersPerAddress, per: .seconds(3_600),
      "More new customers or devices come from this address than may in an hour")
    self.reserve = reserve
    proxies = TrustedProxies(ranges: server.trustedProxies)
  }

  /// The address that a request counts for: its peer's, or the client's that a trusted proxy names. `nil` has no limit.
  func client(naming headers: HTTPFields, peer: ClientAddress?) -> ClientAddress? {
    proxies.client(peer: peer, forwarded: headers[values: .xForwardedFor])
  }

  /// Counts a request of the user whom an app names: the public key is everybody's, and the address may be shared. It is
  /// apart from what the user's own token is counted by, as anybody may name a user.
  func admit(namedByApp user: UserID, _ context: ServiceRequestContext) throws(Problem) {
    try admit("app \(user.rawValue)", context)
  }

  /// Counts a customer or a device that a request makes known: anybody may invent IDs.
  func admitNewcomer(by caller: Caller, from address: ClientAddress?) throws(Problem) {
    try reserve.requireRoom()
    if case .app = caller, let address { try newcomers.admit(address.client) }
  }

  /// Turns a caller away who asks more often than `server.rate_limit` or `server.user_rate_limit` (RFC 6585, section 4),
  /// before the body is read.
  ///
  /// Trouble at Apple or in the ledger is never a 429, because apps take a 4xx for final.
  ///
  /// - Parameter context: of a request that was counted for its address already.
  func admit(_ caller: Caller, _ context: ServiceRequestContext) throws(Problem) {
    switch caller {
    case .server(let server):
      // A server has a limit of its own: all its users' requests come from one address.
      if let client = context.clientAddress { address.limiter.giveBack(client.client) }
      try key.admit(server.name)
    case .user(let user): try admit(user.rawValue, context)
    // The address is limited before; the user, where the request names one, by the route.
    case .app: break
    }
  }

  private func admit(_ name: String, _ context: ServiceRequestContext) throws(Problem) {
    try user.admit("\(context.clientAddress?.client ?? "") \(name)")
    // Reads cost little: the limit of each address is enough for them.
    if context.isWrite { try userInAll.admit(name) }
  }
}

/// One limit, with what is said to a caller above it.
struct RequestLimit: Sendable {
  var limiter: RateLimiter
  let sentence: String
  let refused: Counter

  /// - Throws: a 429 problem for a caller who has asked too often.
  func admit(_ caller: String) throws(Problem) {
    guard let seconds = limiter.admit(caller) else { return }
    refused.increment()
    throw Problem(.rateLimited, sentence, retryAfter: seconds)
  }
}
