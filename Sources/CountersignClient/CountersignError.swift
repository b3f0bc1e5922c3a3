import Foundation

/// Why a call failed. Each case asks for something else of the app:
///
///     do {
///       try await client.purchase("com.example.pro.monthly")
///     } catch CountersignError.cancelled {
///       // Show nothing: the user did this.
///     } catch {
///       message = error.localizedDescription
///     }
public enum CountersignError: Error, Hashable, Sendable {
  /// The user closed the App Store's sheet. Nothing was bought.
  case cancelled
  /// Somebody has to approve the purchase first, as in Ask to Buy. It arrives by itself once they have.
  case pending
  /// The App Store or the service says no, and would say so again. `code` is a problem's code, such as
  /// `owned_by_another_user`, or one of this library's (`docs/swift.md` lists them). `detail` is for developers.
  case refused(code: String, detail: String)
  /// The service or the network is away. A purchase is kept and posted again by itself; any other call may be repeated.
  /// `retryAfter` is in seconds, where the service named a time.
  case later(retryAfter: TimeInterval?)
  /// The service refused the user's token twice, `token` returned another user's, or `signOut()` was called. The user has to
  /// sign in again.
  case signedOut
}

extension CountersignError: LocalizedError {
  /// A sentence for people, in English.
  public var errorDescription: String? {
    switch self {
    case .cancelled: "The purchase was cancelled."
    case .pending: "The purchase waits for approval. It is unlocked as soon as it is approved."
    case .refused(code: "owned_by_another_user", detail: _):
      "This purchase belongs to another account. Sign in with that account, or contact support."
    case .refused(code: "limit_reached", detail: _): "The limit of your plan is reached."
    case .refused(code: "trial_used", detail: _): "The free trial was used already."
    case .refused(code: "trial_over", detail: _): "The free trial is over."
    case .refused(code: "trial_not_needed", detail: _): "Your plan has all that the trial would give."
    case .refused(code: "offer_not_for_user", detail: _), .refused(code: "offer_unavailable", detail: _):
      "This offer is not available to you."
    case .refused(code: "offer_not_signed", detail: _):
      "The offer cannot be checked at the moment. Nothing was bought. Please try again later."
    case .refused(code: "product_unavailable", detail: _): "This product is not available at the moment."
    case .refused(code: "store_unreachable", detail: _): "The App Store cannot be reached. Please try again later."
    case .refused(code: "store_error", detail: _): "The App Store has a problem. Please try again later."
    case .refused(let code, detail: _): "This was not accepted (\(code)). Please contact support."
    case .later: "This could not be confirmed yet. A purchase is kept, and confirmed by itself later."
    case .signedOut: "Please sign in again."
    }
  }
}
