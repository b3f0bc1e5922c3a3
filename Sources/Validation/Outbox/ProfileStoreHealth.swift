import Entitlements
import Profiles
import Synchronization

/// The last known state of the profile store, for operators.
package final class ProfileStoreHealth: Sendable {
  package enum State: Hashable, Sendable {
    case unknown
    case ok
    case unavailable(code: String)
    case misconfigured(code: String)
  }

  private struct Observation {
    var state = State.unknown
    /// Whether the key saw no row at the last check. Rows that are hidden from it look missing.
    var seesNoRow = false
    /// The user whose row alone failed recently.
    var suspect: UserID?
    /// The user whose row alone the store changed or forbade recently.
    var changed: UserID?
  }

  private let last = Mutex(Observation())

  package init() {}

  package var state: State {
    last.withLock { last in
      guard case .ok = last.state, last.seesNoRow else { return last.state }
      return .misconfigured(code: ProfileStoreTrouble.noRowsVisible)
    }
  }

  func note(_ check: ProfileStoreCheck) {
    last.withLock { last in
      switch check {
      case .ok: last = Observation(state: .ok)
      case .misconfigured(let trouble) where trouble.isAboutHiddenRows: last = Observation(state: .ok, seesNoRow: true)
      case .misconfigured(let trouble): last.state = .misconfigured(code: trouble.code)
      case .unavailable(let trouble): last.state = .unavailable(code: trouble.code)
      }
    }
  }

  func note(_ outcome: ProfileWriteOutcome, of user: UserID) {
    last.withLock { last in
      switch outcome {
      case .applied, .superseded: last = Observation(state: .ok)
      case .noSuchProfile, .refused: last.state = .ok
      // The database reports it before it checks our permission.
      case .impossibleUserID: if case .unavailable = last.state { last.state = .ok }
      // A trigger or policy on one row does not make the store misconfigured; a second user's row does.
      case .misconfigured(let trouble) where trouble.mayBeOneRows && last.changed ?? user == user:
        last.changed = user
        if last.state != .misconfigured(code: trouble.code) { last.state = .ok }
      case .misconfigured(let trouble): last.state = .misconfigured(code: trouble.code)
      case .unavailable(let trouble, _) where trouble.code == GuardedProfileStore.refusal: break
      // A locked row does not make the store unavailable; a second user's failure does.
      case .unavailable(let trouble, _) where trouble.mayBeOneRows && last.suspect ?? user == user:
        last.suspect = user
        if last.state != .ok { last.state = .unavailable(code: trouble.code) }
      // An unknown column may become known within a minute. If the check at the start reported it, it stays reported.
      case .unavailable(let trouble, _) where last.state == .misconfigured(code: trouble.code): break
      case .unavailable(let trouble, _): last.state = .unavailable(code: trouble.code)
      }
    }
  }
}
