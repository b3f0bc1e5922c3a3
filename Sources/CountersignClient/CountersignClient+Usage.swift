import CountersignAPI
import Foundation

extension CountersignClient {
  /// Consumes an amount of a meter, before the app does what it is for. The service counts, and decides.
  ///
  ///     do {
  ///       try await client.consume("questions")
  ///       answer(question)
  ///     } catch CountersignError.refused(code: "limit_reached", detail: _) {
  ///       showPaywall()
  ///     }
  ///
  /// A lost answer is asked for again under the same key, twice at most, and the consumption counts once.
  ///
  /// - Parameters:
  ///   - feature: a meter of the catalog.
  ///   - amount: from 1 to 1,000,000.
  ///   - timeZone: where the user's days begin; the service allows one change a day. `nil`, or one that is no place, such as
  ///     `GMT+0530`: as before.
  ///   - key: names this consumption. Give the same one to repeat a call that threw `later`.
  @discardableResult
  public func consume(
    _ feature: String, amount: Int = 1, timeZone: TimeZone? = nil, key: String = UUID().uuidString
  ) async throws -> FeatureResponse {
    try checkSignedIn()
    let body = UsageRequest(amount: amount, timeZone: timeZone?.placeName)
    for pause in [1, 2] as [TimeInterval] {
      do { return try await consume(feature, body, key) } catch CountersignError.later(let retryAfter) {
        // Somebody waits for this: what takes longer is theirs to repeat.
        guard retryAfter ?? 0 <= 5 else { throw CountersignError.later(retryAfter: retryAfter) }
        do { try await options.sleep(max(pause, retryAfter ?? 0)) } catch {
          throw CountersignError.later(retryAfter: retryAfter)
        }
      }
    }
    return try await consume(feature, body, key)
  }

  private func consume(_ feature: String, _ body: UsageRequest, _ key: String) async throws -> FeatureResponse {
    let response = try await service.send(
      "POST", "/v1/profiles/me/usage/\(feature.pathComponent)", headers: ["Idempotency-Key": key], body: body)
    if response.status == 403, let reached = response.problem?.feature { note(reached) }
    let answer = try response.decoded(FeatureResponse.self, now: options.now())
    note(answer)
    return answer
  }

  /// Until the next token says it, signed.
  private func note(_ answer: FeatureResponse) {
    held.withLock { held in
      // `allowed` was about the amount that was asked for; here it is about one more.
      held?.access.features[answer.feature] = Access.Feature(
        isAllowed: answer.isMoreAllowed, limit: answer.limit, remaining: answer.remaining)
    }
    publish()
  }
}

extension TimeZone {
  /// The name by which the service knows the zone; `nil` where it has none.
  fileprivate var placeName: String? {
    identifier == "GMT" || identifier == "UTC" || identifier.contains("/") ? identifier : nil
  }
}
