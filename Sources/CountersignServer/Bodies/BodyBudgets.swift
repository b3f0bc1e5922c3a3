import Entitlements

/// The memory for request bodies, by sender.
///
///     validations          server.max_bytes_in_flight
///       ├─ of users          three quarters of it at most, and each user two bodies
///       └─ of servers        three quarters of it at most
///     strangers            a quarter more, and each client address two bodies: of apps by their public key, and of bodies
///                          that hold the credential themselves
///     notifications        a quarter more, and each client address two bodies
///     usage, trials        4 MiB, and each user two bodies of a trial; as much more for apps by their public key
///     events               8 MiB, and each user two bodies
///     support's, runs      bodies of a few KiB; a little more for each
///
/// So no user keeps another out for long, users and servers do not keep each other out, and neither they nor senders without a
/// secret keep each other out.
struct BodyBudgets: Sendable {
  /// The most bytes of a body of `POST /v1/revalidations`, which has a few members.
  static let runLimit = 4 * 1024
  /// The most bytes of a request of support, whose largest part is a note.
  static let supportLimit = 64 * 1024
  /// The most bytes of a request about a trial, whose largest parts are two device tokens of 8 KiB.
  static let trialLimit = 24 * 1024
  /// The most bytes of a request with events of the app: fifty of 8 KiB, and what is around them.
  static let eventsLimit = 512 * 1024
  /// The most bytes of a notification. Its `signedPayload` has at most 256 KiB.
  static let notificationLimit = 512 * 1024

  /// The least share of a user, in bytes, whatever `server.max_body` is: a phone that restores purchases posts many at once.
  private static let leastShare = 1024 * 1024

  private let whole: ByteBudget
  private let users: ByteBudget
  private let servers: ByteBudget
  private let strangers: ByteBudget
  private let notifications: ByteBudget
  private let access = ByteBudget(limit: 4 * 1024 * 1024, share: 2 * trialLimit)
  private let accessOfApps = ByteBudget(limit: 4 * 1024 * 1024, share: 2 * trialLimit)
  private let events = ByteBudget(limit: 16 * eventsLimit, share: 2 * eventsLimit)
  let support = ByteBudget(limit: 16 * supportLimit)
  let runs = ByteBudget(limit: 64 * runLimit)

  init(_ server: ServerSettings) {
    whole = ByteBudget(limit: server.maxBytesInFlight)
    // One body must fit, however small the total is.
    let part = max(server.maxBody, server.maxBytesInFlight / 4 * 3)
    let share = max(2 * server.maxBody, Self.leastShare)
    users = ByteBudget(limit: part, share: share, within: whole)
    servers = ByteBudget(limit: part, within: whole)
    strangers = ByteBudget(limit: max(share, server.maxBytesInFlight / 4), share: share, isHalved: true)
    notifications = ByteBudget(
      limit: max(2 * Self.notificationLimit, server.maxBytesInFlight / 4), share: 2 * Self.notificationLimit,
      isHalved: true)
  }

  /// Bytes of bodies of validations in memory.
  var validationBytes: Int { whole.inUse + strangers.inUse }

  /// An empty loan for the body of a validation.
  ///
  /// - Parameters:
  ///   - caller: `nil` for nobody who is known yet.
  ///   - client: of a caller with a public key or without a name; `nil` for an unknown client.
  func validation(by caller: Caller?, at client: ClientAddress?) -> ByteBudget.Loan {
    switch caller {
    case .user(let user): users.loan(to: user.rawValue)
    case .server: servers.loan()
    case .app, nil: strangers.loan(to: client?.client)
    }
  }

  /// An empty loan for the body of a request about usage or a trial.
  ///
  /// - Parameter client: of a caller with a public key; `nil` for an unknown client.
  func access(by caller: Caller?, at client: ClientAddress? = nil) -> ByteBudget.Loan {
    switch caller {
    case .user(let user): access.loan(to: user.rawValue)
    case .app, nil: accessOfApps.loan(to: client?.client)
    case .server: access.loan()
    }
  }

  /// An empty loan for events of the app.
  func events(by caller: Caller?) -> ByteBudget.Loan {
    if case .user(let user) = caller { events.loan(to: user.rawValue) } else { events.loan() }
  }

  /// An empty loan for a notification.
  ///
  /// - Parameter client: `nil` for an unknown client.
  func notification(from client: ClientAddress?) -> ByteBudget.Loan { notifications.loan(to: client?.client) }
}
