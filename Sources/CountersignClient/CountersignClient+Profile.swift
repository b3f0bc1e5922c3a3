import CountersignAPI
import Foundation

extension CountersignClient {
  /// The verdict on the user, for a settings page: product, dates, whether it renews. An unchanged one is not sent twice.
  ///
  ///     let profile = try await client.profile()
  ///     title = profile.tierName
  ///     if let date = profile.nextBillingAt { detail = "Renews on \(date.formatted(date: .abbreviated, time: .omitted))" }
  ///
  /// While the service is away it is the last answer, and `isOld` says so. Show access by `isAllowed(_:ifUnknown:)` and not by
  /// this: it is not signed.
  public func profile() async throws -> Profile {
    try checkSignedIn()
    var isOld = false
    let verdict: EntitlementResponse
    do { verdict = try await freshVerdict() } catch CountersignError.later(let retryAfter) {
      guard let kept = keptAnswer("profile")?.decoded(EntitlementResponse.self) else {
        throw CountersignError.later(retryAfter: retryAfter)
      }
      verdict = kept
      isOld = true
    }
    // Names are an ornament: trouble with them is none with the profile.
    let plans = try? await plans()
    if let id = verdict.productID, products[id] == nil { _ = await storeProducts([id]) }
    let product = verdict.productID.flatMap { products[$0] }
    return Profile(verdict, plans: plans, product: product, isOld: isOld, at: options.now() + (clockDifference ?? 0))
  }

  func freshVerdict() async throws -> EntitlementResponse {
    try await answer(EntitlementResponse.self, to: "/v1/profiles/me", keptAs: "profile")
  }
}
