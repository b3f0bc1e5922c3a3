package import Entitlements
internal import struct FoundationEssentials.Date

/// Keeps what an app says of a user's device: the device is kept among the user's, and what is known
/// of it comes along.
///
///     a trial was begun there by    the user is        then
///     the device itself             named              it becomes the user's, who has had none
///     another device, whose push    the device         the device means that user from now on, and shares the trial
///       token this one has
///     anybody else                  anybody            nothing moves; the device has had its trial
package struct KeepDevice: LedgerOperation {
  package var device: Device
  package var user: UserID
  /// Whether a user who has had a trial takes another one.
  var takesSeveral = false
  package var requestID: String
  package var evaluationContext: EvaluationContext

  package init(_ device: Device, of user: UserID, requestID: String, _ evaluationContext: EvaluationContext) {
    (self.device, self.user) = (device, user)
    (self.requestID, self.evaluationContext) = (requestID, evaluationContext)
  }

  /// - Returns: whether a trial has become the user's.
  package func run(_ tables: LedgerTables) throws -> Bool { try arrive(tables).hasTaken }

  /// - Returns: whom the user's ID means, and whether a trial has become the user's.
  func arrive(_ tables: LedgerTables) throws -> (user: UserID, hasTaken: Bool) {
    let now = evaluationContext.recordedAt
    var user = try tables.accounts.name(of: user)
    let begun = try tables.trials.newest(on: device.id)
    let former = begun == nil ? try tables.trials.trialOfPredecessor(of: device, at: now) : nil
    var hasTaken = false
    if let trial = begun ?? former, trial.user != user {
      if trial.user.isDevice, !user.isAnonymous {
        hasTaken = try takesSeveral || tables.trials.newest(of: user) == nil
        if hasTaken { try join(trial.user, to: user, tables) }
      } else if former != nil, user == device.id.user, !trial.user.isErased {
        try join(user, to: trial.user, tables)
        user = trial.user
      }
    }
    try tables.trials.keep(device, of: user, at: now)
    if let former { try tables.trials.noteUse(of: former.id, by: user, on: device.id) }
    return (user, hasTaken)
  }

  private func join(_ id: UserID, to user: UserID, _ tables: LedgerTables) throws {
    _ = try JoinCustomer(id, to: user, requestID: requestID, evaluationContext).run(tables)
  }
}
