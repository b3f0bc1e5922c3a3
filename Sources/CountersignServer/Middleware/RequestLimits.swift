import Entitlements
import HTTPTypes
import Resilience

/// The rate limiters of keys, users and client addresses.
struct RequestLimits: Sendable {
  var perKey: RateLimiter
  var perUser: RateLimiter
  var perAddress: RateLimiter
  /// Customers and devices that an address makes known.
  var newcomers: RateLimiter
  var reserve: DiskReserve
  var proxies: TrustedProxies

  init(_ server: ServerSettings, _ reserve: DiskReserve) {
    perKey = RateLimiter(rate: server.rateLimit)
    perUser = RateLimiter(rate: server.userRateLimit)
    perAddress = RateLimiter(rate: server.addressRateLimit)
    newcomers = RateLimiter(rate: server.newCustomersPerAddress, per: .seconds(3_600))
    self.reserve = reserve
    proxies = TrustedProxies(ranges: server.trustedProxies)
  }

  /// The header in which a trusted proxy names its client.
  static let forwardedFor = HTTPField.Name("X-Forwarded-For")

  /// The address that a request counts for: its peer's, or the client's that a trusted proxy names. `nil` has no limit.
  func client(naming headers: HTTPFields, peer: ClientAddress?) -> ClientAddress? {
    proxies.client(peer: peer, forwarded: Self.forwardedFor.map { headers[values: $0] } ?? [])
  }

  /// Whether `AddressLimitCheck` would turn a request away.
  func isAddressSpent(_ headers: HTTPFields, peer: ClientAddress?) -> Bool {
    client(naming: headers, peer: peer).map { perAddress.isSpent($0.client) } ?? false
  }

  /// Counts a request of the user whom an app names: the public key is everybody's, and the address may be shared. It is
  /// apart from what the user's own token is counted by, as anybody may name a user.
  func admit(namedByApp user: UserID) throws(Problem) {
    guard let seconds = perUser.admit("app \(user.rawValue)") else { return }
    throw Problem(.rateLimited, "This user asks more often than they may; wait and try again.", retryAfter: seconds)
  }

  /// Counts a customer or a device that a request makes known (`server.new_customers_per_address`): anybody may invent IDs.
  func admitNewcomer(by caller: Caller, from address: ClientAddress?) throws(Problem) {
    try reserve.requireRoom()
    guard case .app = caller, let address, let seconds = newcomers.admit(address.client) else { return }
    throw Problem(
      .rateLimited, "Too many new customers or devices come from this address; try again later.", retryAfter: seconds)
  }

  /// Turns a caller away who asks more often than `server.rate_limit` or `server.user_rate_limit` (RFC 6585, section 4),
  /// before the body is read.
  ///
  /// Trouble at Apple or in the ledger is never a 429, because apps take a 4xx for final.
  ///
  /// - Parameter address: the client address, which was counted already.
  func admit(_ caller: Caller, from address: ClientAddress?) throws(Problem) {
    switch caller {
    case .server(let server):
      // A server has a limit of its own: all its users' requests come from one address.
      if let address { perAddress.giveBack(address.client) }
      if let seconds = perKey.admit(server.name) {
        throw Problem(.rateLimited, "This key asks more often than it may; wait and try again.", retryAfter: seconds)
      }
    case .user(let user):
      if let seconds = perUser.admit(user.rawValue) {
        throw Problem(.rateLimited, "This user asks more often than they may; wait and try again.", retryAfter: seconds)
      }
    // The address is limited before; the user, where the request names one, by the route.
    case .app: break
    }
  }
}
