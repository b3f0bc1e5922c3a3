import Entitlements
import Ledger
import Validation

extension ServiceConfiguration {
  struct Policy: Hashable, Sendable {
    /// The users whose sandbox purchases count.
    enum Sandbox: String, Hashable, Sendable, CaseIterable {
      case accept
      case testers
      case reject
    }

    /// The meaning of a purchase's `appAccountToken`.
    enum AppAccountToken: String, Hashable, Sendable, CaseIterable {
      /// A hint at the user of the purchase, if that user is known.
      case hint
      /// The ID of a user, known or not.
      case userID = "user_id"
    }

    /// The treatment of transactions signed by Xcode's StoreKit testing.
    enum Xcode: String, Hashable, Sendable, CaseIterable {
      case reject
      case accept
    }

    /// Zero: a failed renewal ends access at once, unless Apple grants grace.
    let billingRetryAccess: Duration
    let sandbox: Sandbox
    let testers: Set<UserID>
    let ownership: OwnershipPolicy
    let appAccountToken: AppAccountToken
    let outageHold: Duration
    /// Zero: what Apple does not show renewed ends at once.
    let lateRenewal: Duration
    /// Zero: Apple is asked every time.
    let reuse: Duration
    /// Zero: nothing counts before Apple was asked.
    let provisional: Duration
    let localVerification: LocalVerificationPolicy
    let xcode: Xcode

    init(_ reader: inout ConfigurationReader) {
      billingRetryAccess = reader.read(
        "policy.billing_retry_access", .duration(.zero ... .days(365)), default: .days(60),
        "How long access continues while Apple retries a failed renewal; 0 ends it at once")
      sandbox = reader.read("policy.sandbox", .choice, default: .accept, "Whose sandbox purchases count")
      let testers = reader.list("policy.testers", of: .text, "User IDs whose sandbox purchases count under `testers`")
      self.testers = Set(testers.map { UserID(appUserID: $0) ?? UserID($0) })
      ownership = reader.read(
        "policy.ownership", .choice, default: .keep, "Who keeps a purchase that a second user presents")
      appAccountToken = reader.read(
        "policy.app_account_token", .choice, default: .hint,
        "The owner of a notified purchase that nobody has presented: `hint`, the user named by its "
          + "`appAccountToken`, if known; `user_id`, that user in any case, because the app sets it to the "
          + "user's ID")
      outageHold = reader.read(
        "policy.outage_hold", .duration(.zero ... .days(365)), default: .days(7),
        "How long an entitlement is kept past its end while Apple cannot be asked")
      lateRenewal = reader.read(
        "policy.late_renewal", .duration(.zero ... .days(30)), default: .days(1),
        "How long an entitlement is kept past its end while Apple shows neither a renewal nor an end; 0 ends it at "
          + "once")
      reuse = reader.read(
        "policy.reuse", .duration(.zero ... .minutes(60)), default: .seconds(30),
        "How long Apple's answer about a receipt is reused; 0 asks every time")
      provisional = reader.read(
        "policy.provisional", .duration(.zero ... .days(30)), default: .days(1),
        "How long a new purchase counts by its signature alone while Apple cannot be asked; 0 grants nothing")
      localVerification = reader.read(
        "policy.local_verification", .choice, default: .advise,
        "`require` refuses a receipt that cannot be verified here; `advise` leaves the decision to Apple")
      xcode = reader.read(
        "policy.xcode", .choice, default: .reject,
        "Transactions signed by Xcode's StoreKit testing: `accept` treats them as sandbox purchases. For development "
          + "only: anybody can make them")

      if xcode == .accept {
        reader.warning(
          "policy.xcode",
          "anybody with Xcode can make such transactions, of any product; never where real customers are")
      }
      if sandbox == .testers, testers.isEmpty {
        reader.warning("policy.sandbox", "policy.testers is empty: nobody's sandbox purchases count")
      } else if sandbox != .testers, !testers.isEmpty {
        reader.warning("policy.testers", "has no effect unless policy.sandbox is testers")
      }
    }
  }
}
