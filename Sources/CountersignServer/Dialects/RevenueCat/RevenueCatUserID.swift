import Entitlements
import Validation

extension UserID {
  /// An app user ID as RevenueCat's SDKs send it.
  init(checkingAppUserID text: String) throws(RevenueCatError) {
    guard !text.isEmpty else { throw RevenueCatError(.emptyUserID, "The app user ID is empty.") }
    guard let id = UserID(appUserID: text) else {
      throw RevenueCatError(
        .invalidUserID,
        "An app user ID has 1 to 100 characters, without '/' and spaces, and is neither 'me' nor a placeholder such as 'null'."
      )
    }
    // Who knows the ID of a device may have its trial, and no more.
    guard !id.isDevice else { throw RevenueCatError(.invalidUserID, "The ID of a device is no app user ID.") }
    self = id
  }
}
