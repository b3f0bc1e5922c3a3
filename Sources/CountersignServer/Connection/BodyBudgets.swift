import Entitlements

/// What request bodies may take of the memory, by who sends them.
///
///     validations          server.max_bytes_in_flight
///       ├─ of users          three quarters of it at most, and each user two bodies
///       └─ of servers        three quarters of it at most
///     notifications        a quarter more, and each client address two bodies
///     support's, runs      bodies of a few KiB; a little more for each
///
/// Thereby no user keeps another out for long, users do not keep servers out, nor servers users, and nobody those who come
/// without a credential.
package struct BodyBudgets: Sendable {
  /// Bytes of a body of `POST /v1/revalidations`, which is a few members.
  static let runLimit = 4 * 1024
  /// Bytes of a body of support's, of which a note is the largest part.
  static let supportLimit = 64 * 1024
  /// Bytes of a notification. Its `signedPayload` has at most 256 KiB.
  static let notificationLimit = 512 * 1024

  /// What a user may have on its way however small a body has to be: a phone that restores posts many at once.
  private static let leastShare = 1024 * 1024

  private let users: ByteBudget
  private let servers: ByteBudget
  private let notifications: ByteBudget
  package let support = ByteBudget(limit: 16 * supportLimit)
  package let runs = ByteBudget(limit: 64 * runLimit)

  package init(_ server: ServerSettings) {
    let whole = ByteBudget(limit: server.maxBytesInFlight)
    // One body has to fit, however small the whole is.
    let part = max(server.maxBody, server.maxBytesInFlight / 4 * 3)
    users = ByteBudget(limit: part, share: max(2 * server.maxBody, Self.leastShare), within: whole)
    servers = ByteBudget(limit: part, within: whole)
    notifications = ByteBudget(
      limit: max(2 * Self.notificationLimit, server.maxBytesInFlight / 4), share: 2 * Self.notificationLimit)
  }

  /// For a body of a validation.
  func validation(by caller: Caller) -> ByteBudget.Loan {
    switch caller {
    case .user(let user): users.loan(to: user.rawValue)
    case .server: servers.loan()
    }
  }

  /// For a notification.
  ///
  /// - Parameter client: `nil` where the client is not known.
  package func notification(from client: ClientAddress?) -> ByteBudget.Loan { notifications.loan(to: client?.client) }
}
